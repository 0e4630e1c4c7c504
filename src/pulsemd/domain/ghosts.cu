// Owned atoms that a lower neighbour needs go to its inbox as ghosts, all pulses of a direct plan at once. Macro: THREADS.
#include "inbox.cuh"

// blockIdx.y: local rank. Rows beyond `most` are counted but not written, which the host sees.
extern "C" __global__ void __launch_bounds__(THREADS)
    send_ghosts(const Domain* domains) {
  const Domain own = domains[blockIdx.y];
  const Inbox inbox = own.inboxes[own.rank];
  const int row = blockIdx.x * THREADS + threadIdx.x, n_owned = *inbox.n_owned;
  if (row == 0) own.found[0] = n_owned;
  const bool here = row < n_owned && row < own.first_ghost;
  const int4 leader = here ? inbox.leader[row] : make_int4(0, 0, 0, 0);
  const uint32 place[3] = {uint32(leader.x), uint32(leader.y), uint32(leader.z)};
  for (int p = 0; p < own.n_pulses; p++) {
    const DirectPulse pulse = own.pulses[p];
    bool wanted = here;
    for (int d = 0; d < 3; d++) wanted = wanted && uint32(place[d] - uint32(pulse.lower[d])) < pulse.span[d];
    const int number = append(own.found + 2 + p, wanted);
    if (!wanted || number >= own.most) continue;
    own.sent[p * own.most + number] = row;
    const Inbox peer = own.inboxes[pulse.receiver];
    const long long ghost = own.first_ghost + p * own.most + number;
    peer.x[ghost] = inbox.x[row];
    peer.leader[ghost] = make_int4(leader.x, leader.y, leader.z, int(pulse.home));
    peer.gid[ghost] = inbox.gid[row];
  }
}

// Empty the inboxes for the next search, before a barrier that all ranks pass before they write to them again.
extern "C" __global__ void __launch_bounds__(THREADS)
    empty_inboxes(const Domain* domains) {
  const Domain own = domains[blockIdx.y];
  const Inbox inbox = own.inboxes[own.rank];
  const int row = blockIdx.x * THREADS + threadIdx.x;
  if (row == 0) *inbox.n_owned = 0;
  if (row < own.n_rows) inbox.gid[row] = -1;
}
