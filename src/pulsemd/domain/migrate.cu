// Owned atoms go to the inbox of the rank whose cell holds their leader; most stay where they are. Macro: THREADS.
#include "inbox.cuh"

// blockIdx.y: local rank. Rows beyond the inbox are counted but not written, which the host reports.
extern "C" __global__ void __launch_bounds__(THREADS)
    migrate_atoms(const Domain* domains) {
  const Domain own = domains[blockIdx.y];
  const int slot = blockIdx.x * THREADS + threadIdx.x, end = 64 * int(*own.owned);
  const int g = slot < end && slot < own.n_slots ? own.gid[slot] : -1;
  int rank = -1;
  float reach = 0.0f;
  int4 x = make_int4(0, 0, 0, 0), leader = x;
  if (g >= 0) {
    x = own.x[slot];
    leader = own.x[own.slot_of[own.leader_of[g]]];
    rank = rank_of(leader, own);
    reach = square_of(to_cartesian<false>(lattice_difference(x, leader), load_scale(own.scale)));
  }
  const uint32 largest = __reduce_max_sync(ALL_LANES, uint32(__float_as_int(reach)));  // in the order of their bits
  if ((threadIdx.x & 31) == 0 && largest) atomicMax(own.found + 1, int(largest));
  const bool stays = rank == own.rank;
  int row = append(own.inboxes[own.rank].n_owned, stays);
  if (g >= 0 && !stays) row = atomicAdd_system(own.inboxes[rank].n_owned, 1);
  if (g < 0 || row >= own.first_ghost) return;
  const Inbox inbox = own.inboxes[rank];
  leader.w = 7;  // all home bits
  inbox.x[row] = x;
  inbox.v[row] = own.v[slot];
  inbox.leader[row] = leader;
  inbox.gid[row] = g;
}
