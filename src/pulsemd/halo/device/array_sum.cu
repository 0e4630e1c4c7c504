// The sum of large arrays that are mostly zero where others are not, such as the meshes of charges of several processes:
// each stores its own into inboxes at the others, and adds what came, in the order of processes, so that all get the
// same bits.
//
// Blocks work alone. Block b of every process has the same part of the array; it sends that and awaits the parts b of the
// others. Blocks begin in the order of their numbers everywhere, so it does not matter how many find a place at once.
// Vectors of zeros are not sent: a word of 32 bits tells which of 32 vectors were. An inbox has two halves, for even and
// odd epochs: a process stores epoch e + 2 only after everybody's e + 1, which each sent after reading e.
//
// To a process that stores do not reach a block puts its whole part at once, from where its inbox of the own values would
// be, which is nowhere else used. That is written again two epochs later, when the next values of the receiver's block
// have shown that the part came.
//
// Macros: SCALAR (long long, float), NETWORK, THREADS.
#include "exchange.cuh"

constexpr int LANES = 16 / sizeof(SCALAR), GROUP = 32;  // scalars of a vector, vectors of a group

struct alignas(16) Vector {
  SCALAR of[LANES];

  __device__ __forceinline__ bool any() const {
    bool found = false;
    for (int k = 0; k < LANES; ++k) found = found || of[k] != 0;
    return found;
  }
};

struct SumState {
  uint64 epoch, done, channel;
  long long n_vectors, n_processes, process;
  uint64 signals;  // bytes before the first inbox: words by process and block
  struct Process {
    uint64 block;    // address of its symmetric block
    uint64 by_puts;  // 1: as network.cuh takes it
  } processes[1];
};

// What one process sends to another in an epoch: vectors, then a word of each group, with room for a vector.
struct Inbox {
  uint32* sent;
  Vector* vectors;

  __device__ __forceinline__ Inbox(const SumState* state, int at, int from, uint64 epoch, long long n_groups) {
    const uint64 number = epoch % 2 * state->n_processes + from;
    const uint64 start = state->processes[at].block + state->signals + number * n_groups * (GROUP + 1) * 16;
    vectors = reinterpret_cast<Vector*>(start);
    sent = reinterpret_cast<uint32*>(start + n_groups * GROUP * 16);
  }
};

__device__ __forceinline__ bool by_puts(const SumState* state, int process) {
  return NETWORK && state->processes[process].by_puts;
}

__device__ __forceinline__ uint64* signal_word(const SumState* state, int at, int from) {
  const uint64 number = uint64(from) * gridDim.x + blockIdx.x;
  return reinterpret_cast<uint64*>(state->processes[at].block) + number * SIGNAL_STRIDE;
}

// The groups of this block, of which its warps take turns.
struct Share {
  long long begin, end, n_groups;
};

__device__ __forceinline__ Share share_of_block(long long n_vectors) {
  const long long n_groups = (n_vectors + GROUP - 1) / GROUP, each = (n_groups + gridDim.x - 1) / gridDim.x;
  return {blockIdx.x * each, min(n_groups, (blockIdx.x + 1) * each), n_groups};
}

__device__ __forceinline__ void send(const SumState* state, const Share& share, const Vector* own, uint64 epoch) {
  const int me = state->process, n = state->n_processes, lane = threadIdx.x % 32;
  for (long long g = share.begin + threadIdx.x / 32; g < share.end; g += THREADS / 32) {
    const long long v = g * GROUP + lane;
    Vector mine = {};
    if (v < state->n_vectors) mine = own[v];
    const uint32 some = __ballot_sync(ALL_LANES, mine.any());
    for (int k = 1; k < n; ++k) {  // not all to the same process at once
      const int p = (me + k) % n;
      if (by_puts(state, p)) {
        if (v < state->n_vectors) Inbox(state, me, me, epoch, share.n_groups).vectors[v] = mine;
        continue;
      }
      const Inbox there(state, p, me, epoch, share.n_groups);
      if (mine.any()) there.vectors[v] = mine;
      if (lane == 0) there.sent[g] = some;
    }
  }
}

// Called by all threads of the block, which have met since they sent.
__device__ __forceinline__ void put(const SumState* state, const Share& share, uint64 epoch) {
  const int me = state->process, n = state->n_processes;
  const long long first = share.begin * GROUP, end = max(first, min(share.end * GROUP, state->n_vectors));
  const Vector* source = Inbox(state, me, me, epoch, share.n_groups).vectors + first;
  for (int k = 1; k < n; ++k) {
    const int p = (me + k) % n;
    if (by_puts(state, p))
      pulsemd_put_signal(Inbox(state, p, me, epoch, share.n_groups).vectors + first, source,
                         (end - first) * sizeof(Vector), signal_word(state, p, me), epoch, p);
  }
}

__device__ __forceinline__ bool meet(const SumState* state, const Share& share, Controls* controls, uint64 epoch) {
  const int me = state->process;
  bool here = true;
  __syncthreads();
  put(state, share, epoch);
  for (int p = threadIdx.x; p < state->n_processes; p += THREADS)
    if (p != me && !by_puts(state, p)) store_release(signal_word(state, p, me), epoch);
  for (int p = threadIdx.x; p < state->n_processes; p += THREADS)
    if (p != me)
      here = wait_until(signal_word(state, me, p), epoch, controls, state->channel, REDUCED, 0, p) && here;
  return __syncthreads_and(here);
}

__device__ __forceinline__ void add(const SumState* state, const Share& share, Vector* own, Vector* total, uint64 epoch) {
  const int me = state->process, lane = threadIdx.x % 32;
  for (long long g = share.begin + threadIdx.x / 32; g < share.end; g += THREADS / 32) {
    const long long v = g * GROUP + lane;
    if (v >= state->n_vectors) continue;
    Vector sum = {};
    for (int p = 0; p < state->n_processes; ++p) {
      const Inbox here(state, me, p, epoch, share.n_groups);
      if (p != me && !by_puts(state, p) && !(here.sent[g] >> lane & 1)) continue;
      const Vector part = p == me ? own[v] : here.vectors[v];
      for (int k = 0; k < LANES; ++k) sum.of[k] += part.of[k];
    }
    total[v] = sum;
    own[v] = Vector{};
  }
}

// own : (n_vectors,), set to zero; total : (n_vectors,), written
extern "C" __global__ void __launch_bounds__(THREADS)
    sum_arrays(SumState* state, Controls* controls, Vector* own, Vector* total) {
  const uint64 epoch = state->epoch + 1;
  if (load_relaxed(&controls->abort)) return;
  const Share share = share_of_block(state->n_vectors);
  send(state, share, own, epoch);
  if (!meet(state, share, controls, epoch)) return;
  add(state, share, own, total, epoch);
  if (is_last(&state->done, gridDim.x) && threadIdx.x == 0) state->epoch = epoch;
}
