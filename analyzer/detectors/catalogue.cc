#include "analyzer/detectors/catalogue.h"

#include <algorithm>
#include <iterator>

namespace traintrace {
namespace {

struct Explanation {
  std::string_view code;
  std::string_view text;
};

// What docs/findings.md says at more length.
constexpr Explanation kExplanations[] = {
    {"collective.missing-rank",
     "Ranks have entered a collective, or put it on a stream, and it cannot have finished, because "
     "the culprit has not entered it for at least --hang-after. The culprit waits for nobody that "
     "was seen: a rank that is itself waiting elsewhere is a victim. Its last call and stack say "
     "what it does instead. As many missing as waiting: nobody is blamed. A rank that went on with "
     "other communicators within --hang-after is late, not missing."},
    {"collective.dead-rank",
     "The process of the culprit is known to have ended, without an exit record, before those that "
     "wait for it: they run, or had a sign of life more than 3 s later. It was killed by a signal. "
     "Where all ended at about the same time, nobody can say who was first: possible, and nobody "
     "is blamed. So too where a rank is only silent: a signal that stops it, a pause of its "
     "container, a disk that hangs and a lost machine look the same."},
    {"collective.early-exit",
     "The culprit called exit or _exit, or returned from main, while others went on to a "
     "collective that needs it. With status 0 the numbers decide: the smaller side is blamed. With "
     "another status its own end is the reason, however few wait."},
    {"collective.skipped-call",
     "NCCL matches the n-th collective of a rank with the n-th of all others. Up to one number the "
     "culprit issued the same as they did, and from there on what they issued one (or more) later. "
     "Where neighbours are equal, which of them it left out is a range, as narrow as the lines "
     "that called allow. If all are equal, only those lines tell, and only if somebody waits for "
     "it in the end. One against one, both sides are named and nobody is blamed."},
    {"collective.extra-call",
     "As collective.skipped-call, the other way round: the culprit issued a collective that nobody "
     "else did, and the others' behind it."},
    {"collective.order-swapped",
     "Two collectives of one communicator were issued by all, but by the culprit in the other "
     "order: both are seen on both sides. Inside one group NCCL sorts them again: a warning."},
    {"collective.operation-mismatch",
     "Different functions met at the same number of a communicator, and what follows does not say "
     "that a call was left out or made in excess. Where only the hashes of the ranks' sequences "
     "differ, because the place is too long ago, the range is named: possible, and nobody is "
     "blamed."},
    {"collective.count-mismatch",
     "The same function met with different numbers of elements. NCCL does not check; whether it "
     "hung, finished, or failed is said as observed."},
    {"collective.dtype-mismatch",
     "The same function met with different data types. Where data is only copied (AllGather, "
     "Broadcast, AlltoAll, Gather, Scatter) and the bytes are equal it is harmless: info."},
    {"collective.root-mismatch", "The same function met with different roots."},
    {"collective.redop-mismatch",
     "The same function met with different reductions. Reductions made by the user (PreMulSum) "
     "are not told apart."},
    {"collective.empty-call",
     "Some ranks called with count 0, and the others did not: NCCL drops the call without a word, "
     "so that their next one meets this one of the others."},
    {"collective.wrong-communicator",
     "On one communicator the culprit lacks a collective, and on another of the same members it "
     "has one more than the others, with the same arguments and called from the same line. "
     "Somebody "
     "has waited for at least --hang-after."},
    {"p2p.against-collective",
     "Where the others entered a collective, the culprit issued a send or receive on the same "
     "communicator that its peer does not answer. Somebody has waited for at least --hang-after."},
    {"collective.cross-communicator-deadlock",
     "Ranks have waited for each other for at least --hang-after, in operations of several "
     "communicators: each has entered one that the other has not. The sides say who waits in which "
     "operation; of two orders the one that fewer ranks have is blamed, else nobody."},
    {"p2p.missing-recv",
     "A rank waits in a send, and the peer has not posted the receive for at least --hang-after. "
     "Sends of up to 4 MiB may be buffered and are not counted unless the host is blocked in "
     "them."},
    {"p2p.missing-send",
     "A rank waits in a receive, and the peer has not posted the send for at least --hang-after."},
    {"collective.group-unclosed",
     "A rank called what the others wait in, between ncclGroupStart and an ncclGroupEnd that "
     "it never came to: nothing of it was launched. Where the group was opened is said if its "
     "stack is known. That it calls more inside the group is no progress."},
    {"collective.group-mismatch",
     "Equal collectives of one communicator were called in one group on some ranks, and one by "
     "one or in other groups on others. NCCL plans a group as a whole, so order and algorithm "
     "may differ. A group of a single collective counts as none; how sends and receives are "
     "grouped may differ. Looks at the 64 newest operations."},
    {"collective.alltoall-mismatch",
     "Sends and receives in one group with most of the other ranks are taken for an all-to- "
     "all; a pair disagrees about the size of its message. A rank that has a part in all pairs "
     "that disagree is the culprit, or one that all other ranks contradict; else both sides "
     "are named."},
    {"p2p.wrong-peer",
     "A send and a receive of equal size have been without an answer for --hang-after, and "
     "would belong together if one of them named another peer. It is said only if that line "
     "always named the right one before, if all other ranks choose their peers so, or if the "
     "peer that it names went on without it."},
    {"p2p.count-mismatch",
     "The n-th send from one rank to another met the n-th receive there, and their sizes "
     "differ. One that has a part in all of several such pairs is the culprit; of a single "
     "pair the side that all other ranks contradict in their messages of that number; else "
     "both sides are named and nobody is blamed."},
    {"p2p.dtype-mismatch",
     "As p2p.count-mismatch, for types of different width. With equal bytes it is harmless: "
     "info."},
    {"p2p.order",
     "Two messages of different size from one rank to another were received in the other order "
     "than they were sent. Messages of equal size cannot be told apart."},
    {"p2p.cycle",
     "Ranks wait for each other in sends, or in receives, and in nothing else: all send first, "
     "outside a group, and no send completes for want of a receive. Sends of up to 4 MiB may "
     "be buffered and count only where the host is blocked in them."},
    {"comm.first-use-deadlock",
     "As collective.cross-communicator-deadlock, but all are inside the first operation of the "
     "communicators: connecting blocks the host until all members have come, so that streams "
     "of their own do not help."},
    {"comm.init-incomplete",
     "Ranks are inside the creation of a communicator, a split or a shrink, and others that belong "
     "to it have not called it for at least --hang-after. Or they are inside ncclCommFinalize or "
     "ncclCommDestroy, all that they called is finished, and others of the same machine have not "
     "ended the communicator: likely, as NCCL may wait there and does not always."},
    {"collective.launch-order-race",
     "Ranks wait for each other in a circle, and on one of them each of the communicators has a "
     "thread of its own, so that the order is up to chance. Nobody is blamed."},
    {"collective.same-order-deadlock",
     "NCCL's profiler said that of two operations that all ranks called in one order, some GPUs "
     "run the first and some the second, and none has room for both."},
    {"collective.capture-divergence",
     "The newest collective of the culprits was captured into a graph that they have not launched "
     "since, while the others run it and wait."},
    {"device.stalled",
     "All entered the operation, more than half finished it, and the culprits, which have not, are "
     "seen to wait for their GPU. Never a proof: what the GPU does is not seen."},
    {"device.blocked-stream",
     "All entered the operation, and it has not begun on the culprits: a function that they put on "
     "the stream before it has not returned, or the GPU said that the stream has not come to it "
     "(TRAINTRACE_GPU_PROGRESS=marks, plugin)."},
    {"device.transport-stall",
     "All entered the operation, and none gets past it. Likely where every GPU said that it has "
     "come to it; possible where they were only observed, since then one may not have. Nobody is "
     "blamed. It takes four times as long as the job's longest step, and --hang-after."},
    {"device.not-resident",
     "NCCL's profiler said that the operation's kernel does not run on some ranks, where that of "
     "another communicator does."},
    {"host.implicit-sync-deadlock",
     "In a circle of waiting, the culprits are inside a call that waits for the whole device, and "
     "so for an operation that their peers have not begun; the others are not. The title says the "
     "chain."},
    {"run.oom-then-hang",
     "An allocation failed for want of memory, nothing was launched there since, no such amount "
     "was had at a later try, and the others wait for that rank, whether it still runs or not."},
    {"run.watchdog-abort",
     "All entered the operation, nothing says why it did not end, and it was given up by an abort. "
     "What was missing before the first abort is reported instead, if anything was."},
    {"comm.init-mismatch",
     "Members of one communicator were told different sizes, claim the same rank of it, were "
     "given different unique ids while all are waiting, or use one device and NCCL refused it. "
     "The fewer are blamed; of those who claim one rank, who is another rank of the world; of "
     "those on one device, whose LOCAL_RANK is another."},
    {"comm.destroy-mismatch",
     "Ranks wait for at least --hang-after in an operation of a communicator that the culprit "
     "has destroyed, and its process is there."},
    {"comm.use-after-abort",
     "A handle was used behind the entry of ncclCommAbort or ncclCommDestroy, and NCCL refused "
     "the call. Where the address has been given to a new communicator this cannot be seen."},
    {"comm.nonblocking-unpolled",
     "NCCL refused a call on a non-blocking communicator, and what was under way there had not "
     "been polled until it was done."},
    {"comm.async-error",
     "ncclCommGetAsyncError reported an error, and neither a difference in what the ranks "
     "called nor the death of one explains it. Who was told first is taken for the root, which "
     "is likely at most: others may have had it earlier and looked later. Where the times are "
     "not known nobody is blamed."},
    {"comm.split-color-collision",
     "Ranks of one split gave it different names (ncclConfig_t.commName): two groups were "
     "meant, and got one color."},
    {"comm.leaked",
     "A rank ended with status 0 and had not destroyed the communicator, though the run destroys "
     "others: info, since the end of a process frees it."},
    {"comm.version-mismatch",
     "Members of one communicator loaded different versions of NCCL; those who differ from a "
     "majority are named. The same for the variables from which each rank works out by itself how "
     "an operation is done: NCCL_ALGO, NCCL_PROTO, the sizes of buffers and the numbers of "
     "threads."},
    {"comm.rendezvous-missing",
     "Somebody looked at the job (traintrace attach), in which there is no communicator yet: ranks "
     "wait in a store, nobody moves, and nothing was called for at least --hang-after. Who stands "
     "outside the store is blamed if it is fewer than those in it and waits for nobody else that "
     "could be a rank. Who computes or reads is late, not stuck."},
    {"comm.launch-race",
     "NCCL answered ncclInvalidUsage (as with NCCL_LAUNCH_RACE_FATAL, its default) to a call on "
     "a communicator with which nothing else is known to be wrong, while another thread of the "
     "process was inside a launch on the same device. Likely: NCCL says why in its log only."},
    {"comm.split-mismatch",
     "Of the splits of one communicator a rank left out one that more than half of the members "
     "made, or made one in excess, and goes on with those behind it, which are told by their "
     "names (ncclConfig_t.commName) and lines; and somebody has waited for --hang-after since "
     "then, "
     "or the rank has ended. Splits in another order, and another color than was meant, "
     "cannot be told from what was meant."},
    {"comm.registration-mismatch",
     "Ranks have been inside ncclCommWindowRegister for at least --hang-after, and others of the "
     "communicator, which are there, are not; or all are, with different sizes or flags. Windows "
     "registered within a group are not seen."},
    {"host.stuck",
     "Somebody looked at the job while it hung (traintrace attach): the culprits' threads are "
     "outside NCCL and CUDA, at the same place in two looks, and have called nothing of them for "
     "at least --hang-after. The kind is what the thread waits for. From dumps of PyTorch's Flight "
     "Recorder, likely: all that the culprits issued is finished, and nothing came after it, while "
     "others wait for them."},
    {"collective.late-rank",
     "All came, and a minority so much later than the others (--hang-after, and at least 5 s) that "
     "those waited: they entered nothing else in between. The first collective of a communicator "
     "does not count, nor is it looked for where something is wrong."},
    {"latency.data-starvation",
     "Idle time in which the thread that launched next was in the data loader, in at least half of "
     "the steps and for 5 % of the window. The loader comes before any call that blocks after it."},
    {"latency.host-bound",
     "Idle time before a launch that came too late, or until it arrived, where nothing else "
     "explains "
     "what the host did: 5 % of the window where half of the work began within 20 us of its "
     "launch, "
     "10 % where most of it was queued. Said only where 80 % of the idle time has a cause."},
    {"latency.sync-in-loop",
     "A call that waits for the GPU returned within the gap, so that nothing was queued: 5 % of "
     "the "
     "window, in at least half of the steps. Time that the host waits while the GPU works is no "
     "loss."},
    {"latency.pageable-copy",
     "As latency.sync-in-loop, where the call is an asynchronous copy that blocks because the "
     "host's side is pageable."},
    {"latency.harmless-sync",
     "The host spends 5 % of the window or more in calls that wait for the GPU, and the GPU is "
     "idle "
     "for at most a tenth of that."},
    {"latency.default-stream",
     "Work that was launched and had nothing before it on its stream began where work of the "
     "legacy "
     "default stream ended, or the other way round, on streams that were not made to ignore it, "
     "and "
     "was told to wait for nothing else: 5 % of the window, in at least half of the steps. Likely, "
     "as both together may not have fitted on the GPU. Our own traces only."},
    {"latency.implicit-sync",
     "Idle time in which the host took or gave back memory of the device, or loaded code."},
    {"latency.exposed-communication",
     "Time in which the GPU ran a kernel of NCCL and computed nothing: an upper bound of what "
     "could "
     "be gained. Where all ranks are there, what they waited for each other is taken out. "
     "Blocking: "
     "the part for which the next kernel that computes had been launched and waited for it. "
     "Bubble: "
     "where ranks are the stages of a pipeline, what they waited for neighbours."},
    {"latency.wait-not-transfer",
     "More than half of the time in collectives passed before the last rank came. Transfer counts "
     "from there to the median of the ends. Needs all ranks, and ends that agree within 50 us or "
     "5 % of the collective."},
    {"latency.entry-skew",
     "A rank came late to the first collective of the window and to no other: where the recording "
     "began says nothing about it."},
    {"latency.straggler",
     "Host time between two collectives beyond the median of all ranks is charged to a rank, "
     "without "
     "what it waited for the GPU, and no more than it came late by: at least three times, and 5 % "
     "of "
     "the time between the first and the last collective. A proof takes 20 collectives and 60 % of "
     "them. Of half of the ranks or more, nobody is blamed."},
    {"latency.slow-device",
     "Of kernels of the same name, grid and blocks that all ranks ran equally often, all take 5 % "
     "longer on this rank than at the median of the ranks, with nothing else on the GPU meanwhile. "
     "Needs three GPUs, and profiles that tell the grids."},
    {"latency.rotating-stall",
     "Collectives that one rank alone made late, by 0.2 ms and four times as much as the next one: "
     "at least six, at least two by each of three ranks and of half of all, no more than half by "
     "one; 5 % of the time. Where several are late at once, it is jitter, and nothing is said."},
    {"latency.small-collectives",
     "At least 20 calls in each step of one operation on one communicator, each of 64 KiB or less, "
     "during which nothing is computed: 5 % of the window. What they cost does not depend on what "
     "they carry. Possible only, where it is not known how much of it is waiting for other ranks."},
    {"latency.step-regression",
     "From one step on until the end, steps of the same work take 10 % longer at the median, at "
     "least five on each side and nine in ten of each side beyond the middle between both. A rank "
     "is blamed only where the growth is its own and that of all others is waiting in "
     "collectives."},
    {"latency.slow-kernel-path",
     "Kernels of plain products of matrices that, by their names, multiply float or half-precision "
     "numbers without the tensor cores that the GPU has, or read operands in pieces of 4 bytes: "
     "5 % of the window with nothing else beside them, in at least half of the steps. Kernels "
     "below 10 us, and those that take less than twice as long as moving their operands, are left "
     "out. Float only where TF32 is twice as fast. Possible, where shapes are not known; whether "
     "full precision is wanted cannot be told, and nobody is blamed."},
    {"latency.graph-gap", "Idle time between the nodes of one replay of a graph."},
    {"latency.event-spin",
     "One thread asks for events or streams in a row, with hardly a pause. It takes a core, which "
     "costs nothing where cores are free. Imported profiles only."},
    {"latency.cpu-contention",
     "Launch calls take at least twice as long on a rank as on most ranks, and its GPU is idle for "
     "it. Likely: what holds the host up is in no profile."},
    {"latency.queue-full",
     "Launches wait because a stream has as much work ahead as its queue holds. That is how a job "
     "should run, and why its launch calls look slow."},
    {"latency.unattributed",
     "Lost time is idle time plus communication that nothing is computed beside. Where 10 % of the "
     "window are lost and no other finding names them, or 5 % are idle for a reason that was not "
     "recorded, this finding says how much, in which causes, and which rule left them out."},
    {"latency.pause",
     "Gaps that are more than four times as long as those that come in half of the steps, or come "
     "before the first step: a checkpoint, an evaluation, start-up. They are no habit, and are "
     "left "
     "out of the findings about habits."},
    {"latency.lazy-load",
     "The call that launches a kernel for the first time in the recording took 0.1 ms or more, and "
     "the GPU had nothing else to do: CUDA loads code at its first use. Information where it is "
     "before the first step, or no steps are known."},
    {"run.in-progress",
     "No rank has kept others waiting for --hang-after, and not every rank has ended normally: a "
     "snapshot of a job that moves. The evidence lists who was waiting for whom."},
    {"run.healthy",
     "Every rank left an exit record with status 0, and nobody was waiting. Whether the last "
     "operations finished on the GPU may not have been observed; a normal end implies it."},
    {"memory.growth-leak",
     "Of the memory that one stack allocated, copies are left from all along the run, as many "
     "lately "
     "as at the beginning, and none of them was freed: 16 or more over 16 or more steps. Steps are "
     "found from collectives, or from launches in a process without peers, that repeat. Memory "
     "from before the first step, a cache that is full or fills ever more slowly, and what is "
     "collected now and then are not leaks. bytes is all that is left of it; bytes_per_step is "
     "measured where records are left, else derived from their pace. Likely, never proof: that "
     "nobody will free it cannot be seen. Tensors of PyTorch are judged each by itself, not the "
     "memory that its allocator holds; one line that keeps one smallest block of it per step, less "
     "than 64 MiB in all, may be a list of losses: info. Memory of libraries is not judged."},
    {"memory.retained",
     "64 MiB or more of one stack, all from before the steps or from their first quarter, and "
     "still there: weights, an optimizer's state, a cache that is full. Information, for who "
     "looks for what holds the memory."},
    {"memory.fragmentation",
     "PyTorch's allocator took more memory although as much was free in segments of the same kind, "
     "but only in pieces between blocks in use, none of them large enough. Said where those "
     "pieces together, and what the peak held lies above the peak in use, are 64 MiB and a quarter "
     "of what the peak held, or more. unusable_bytes are the pieces; free_bytes, largest_bytes and "
     "requested_bytes are of the request with the most free bytes, just after it. The evidence "
     "names what lies beside the holes."},
    {"memory.cache-bloat",
     "As memory.fragmentation, but what was free lay in empty segments, each too small: every new "
     "size, larger than all before it, took a new one. Eight sizes or more."},
    {"memory.pending-free",
     "PyTorch's allocator took more memory while a freed block that was large enough waited for "
     "events of another stream (record_stream): 64 MiB and a quarter of the peak, or more. "
     "pending_bytes is the most that waited at one time."},
    {"memory.alloc-retry",
     "The device refused memory to PyTorch's allocator, which gave back cached segments and then "
     "had it: four times or more. retry_ns is the time from the first refusal to the block."},
    {"memory.cache-flush-in-loop",
     "PyTorch's allocator gave back cached segments from one place in half of the steps or more, "
     "and eight times or more, although the device had refused nothing."},
    {"memory.temporary-spike",
     "The largest block at the peak of PyTorch's memory was the only one of its stack, gone at the "
     "latest with the next step, and without what that stack allocates the peak would have been a "
     "quarter (and 64 MiB) lower."},
    {"memory.unaccounted",
     "The sum of the blocks that PyTorch's allocator reported differs from the total that it "
     "reported beside, in a process that ended, with no record lost; or it had memory in use "
     "before its first report. Where only the segments differ: info, as others may give it some. "
     "Nobody is blamed: other findings on this memory may lack something."},
    {"memory.library",
     "NCCL, cuBLAS and their like hold 64 MiB or more of a device for themselves. A warning where "
     "that is a quarter of the device or more, as far as the job asked how large it is; else "
     "information."},
    {"memory.extra-context",
     "A rank whose communicators are all of one device has live memory on the device of another "
     "rank of its host, or called something there that needs a context. Devices are compared "
     "between ranks that see the same ones (CUDA_VISIBLE_DEVICES)."},
    {"memory.wrong-device",
     "The job's own code set or freed memory of one device while another was current, before the "
     "last launch or collective. What cleans up behind all work is not counted, and if it was only "
     "freed, which works from every device, this is an info."},
    {"memory.pinned-waste",
     "Pinned blocks of PyTorch, of a power of two, of which no copy in the whole record came to "
     "the last quarter or more: 64 MiB in all. What the host alone reads and writes is not seen."},
    {"memory.rank-imbalance",
     "Of three ranks or more, one has a peak of PyTorch's memory that is a quarter (and 64 MiB) "
     "above the median, and no other comes half as far above it. surplus_bytes is of the place in "
     "the code of which it had most more than the typical rank, each at its own peak."},
    {"memory.leak-at-exit",
     "Device memory that the job's own code allocated and that was there when the process ended "
     "with status 0. A warning where the job freed, behind all its work, memory that it had "
     "before; else it leaves its memory to the end of the process: info. What grows with every "
     "step is memory.growth-leak, and counts as kept_bytes here."},
    {"memory.pinned-leak", "As memory.leak-at-exit, of pinned host memory."},
    {"memory.handle-leak",
     "Streams, events, graphs or pools from one place of the job's code that are not destroyed, 16 "
     "or more, from all along 16 or more steps, as many lately as at the beginning. Of what the "
     "ring no longer holds only streams are known."},
    {"memory.double-free",
     "The driver refused to free an address that had been freed and not been handed out since. "
     "Where it was handed out again, the second free takes somebody else's memory and looks "
     "right."},
    {"memory.invalid-free",
     "The driver refused to free an address: it is none that an allocation gave, or the function "
     "does not belong to it, or the first free of it is older than the records."},
    {"memory.fragmentation-oom",
     "An allocation failed although as many bytes were free: on the device, or there and in what "
     "PyTorch's allocator held unused. Only figures that were recorded count: what was live when "
     "it "
     "failed, and what the job itself was told of the device not long before. Like the "
     "other *-oom it is found where the process went on with nothing else and ended; a hang over "
     "it is run.oom-then-hang. After an end with status 0 it is a warning."},
    {"memory.pending-free-oom",
     "PyTorch's allocator held a free piece that was large enough, and could not use it: it waits "
     "for a stream that record_stream named, or belongs to another stream. Possible only."},
    {"memory.neighbour-oom",
     "It would have fitted without what is held on the device by nobody who was recorded here: "
     "other processes. What contexts take (1 GiB, a sixteenth of small devices) is not counted "
     "against them."},
    {"memory.library-oom",
     "It would have fitted without what NCCL, cuBLAS and cuDNN of the process hold as well."},
    {"memory.capacity-oom",
     "Even then it would not have fitted: the job needs more than there is. Possible, and nobody "
     "blamed, where the figures that would tell were not recorded."},
    {"trace.lost-records",
     "The tracer counted what it could not record. Losses of severity info do not touch verdicts "
     "(old calls overwritten in the ring; what a hang needs is kept apart); those of severity "
     "warning turn a proof into likely."},
    {"trace.missing-rank",
     "Ranks that the world size promises have no trace among those that were read: they never "
     "used a GPU, wrote elsewhere, or died before they began."},
    {"trace.truncated", "A file ends before its own header says; what is there was used."},
    {"trace.corrupt", "A part of a file cannot be what the tracer wrote; the rest was used."},
    {"trace.clocks-unaligned",
     "The creation of a communicator ended on one host before it began on another, so their clocks "
     "differ at least by that. Who died first cannot be told across hosts to better than it."},
    {"trace.version-skew", "Ranks of one run were recorded by different versions of the tracer."},
    {"trace.elsewhere",
     "The folder says that these traces were written on the disks of their hosts, since it lies on "
     "a network file system or could not be written to. Nothing is wrong with them, and nothing is "
     "known of those ranks until `traintrace collect` has run on their hosts."},
    {"trace.settings",
     "A variable TRAINTRACE_* that is no setting, a value that is none of those it can have, or a "
     "setting whose means were refused: then the reason that the tracer was given. The default "
     "was in force."},
    {"trace.incomplete-timeline",
     "Timelines of some ranks are missing, hold different numbers of collectives, or ends of one "
     "collective differ between ranks by more than clocks and transfer explain: who came late is "
     "not said."},
    {"internal.error",
     "A detector, the reading of a file or another step of traintrace itself failed, whatever the "
     "traces say; what it would have said is missing, and the run is not called healthy. All else "
     "stands, but where who waits for whom could not be worked out nothing is more than possible. "
     "Please report it: what `traintrace --version` says, the command line, the step that the "
     "finding names and, if it may be passed on, `traintrace dump` of the same traces."},
};

constexpr std::string_view explanation_of(std::string_view code) {
  for (const Explanation& explanation : kExplanations) {
    if (explanation.code == code) {
      return explanation.text;
    }
  }
  return {};
}

constexpr CatalogueRow kRows[] = {
#define TT_FINDING(code, severity, built, values, meaning) \
  {code, Severity::k##severity, meaning, explanation_of(code), values, built},
#include "analyzer/detectors/catalogue.def"
};

}  // namespace

std::span<const CatalogueRow> catalogue() {
  return kRows;
}

const CatalogueRow* catalogue_row(std::string_view code) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const CatalogueRow& other) { return other.code == code; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace traintrace
