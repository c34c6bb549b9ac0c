"""The launch loop and the worker loop of the CPU backend, as LLVM IR.

One native call runs a whole plan. The caller publishes one launch at a time and works on it together with the workers;
nobody waits for a worker that has not claimed anything, so a thread that the system has taken off its core delays
nothing.

The protocol rests on one 64-bit word, the *ticket*: `sequence number of the launch << 32 | chunks not yet claimed`.

- Claim: read the ticket, read the launch's fields, then compare-and-swap `ticket - 1`. A swap that succeeds proves
  that the ticket had not moved on, hence that this launch cannot have ended, hence that the fields read belong to it.
  Whether anything is left is told by the ticket alone, never by the fields. A late worker can therefore read rubbish,
  but not run it.
- End: a thread adds the chunks it ran to `done` when the ticket shows none left; the caller goes on when all are
  done. Only then may it overwrite the fields, so there is never a launch that half of the threads see differently.
- Sleep: a worker counts itself in `sleepers`, looks at the ticket again, then sleeps on `wake`. The caller publishes,
  then looks at `sleepers`. Both sides are sequentially consistent, so one of them sees the other. `sleepers` may
  count too many (a worker that found work after all), which costs one idle wake-up; it never counts too few.

Placement: a scheduler may put a worker on the caller's own processor, behind the caller, where it is of no use; Linux
was seen to leave it there for many frames. So a caller that finds itself on another processor than at the last launch
takes that one out of the workers' affinity. This is done on Linux, and only where every thread has a core.

The floating-point environment of every kernel, on every thread, is the default one (round to nearest, denormals kept,
no traps); the caller's own is restored at the end. All loops are bounded in time by `spin_ns`, after which the system
waits.
"""

from __future__ import annotations

# Byte offsets in the control block. What different threads write lies 128 bytes apart (a pair of cache lines on x86-64,
# one on Apple silicon).
TICKET = 0  # i64: sequence << 32 | chunks left
DONE = 128  # i32: chunks of this launch that have been run
WAITING = 132  # i32: the caller sleeps on DONE
SLEEPERS = 256  # i32: workers that sleep on WAKE, or more
WAKE = 260  # i32: changes at each wake-up
STOP = 384  # i32: workers leave
THREADS = 388  # i32: workers + 1
SPIN_NS = 392  # i64: how long an idle thread spins before it sleeps
CPU = 400  # i32: the processor that the workers were last told to keep off, or -1
ARRIVED = 404  # i32: workers that have entered machine code
IDS = 408  # ptr: the system's thread number (i32) of each worker; null for no placement
FIELDS = 512  # six i64: function, buffers, parameters, workgroups, chunk, chunks of the launch being run
SEQUENCE = 560  # i64: of the last launch published; the caller's own
MUTEX = 640  # pthread_mutex_t, where threads wait with pthread
CONDITION = 768  # pthread_cond_t
CONTROL_BYTES = 896

RECORD_BYTES = 48  # one launch: function, buffers, parameters, workgroups, chunk, flags
ORDERED = 1  # flag: all workgroups by the caller alone, in order

RUN = "rayfuse_run"
WORKER = "rayfuse_worker"
WAKE_ALL = "rayfuse_wake_all"

# The portable part. It calls what `native_system` defines for a system: @wait, @wake, @place, @now, @pause, @enter_fp,
# @leave_fp.
LOOPS = f"""
; Run chunks of the launch that the ticket shows until none is left.
define internal void @drain(ptr %ctl) noinline {{
entry:
  %ticket_at = getelementptr i8, ptr %ctl, i64 {TICKET}
  %fields = getelementptr i8, ptr %ctl, i64 {FIELDS}
  %buffers_at = getelementptr i64, ptr %fields, i64 1
  %parameters_at = getelementptr i64, ptr %fields, i64 2
  %workgroups_at = getelementptr i64, ptr %fields, i64 3
  %chunk_at = getelementptr i64, ptr %fields, i64 4
  %chunks_at = getelementptr i64, ptr %fields, i64 5
  br label %look
look:
  %mine = phi i32 [ 0, %entry ], [ %mine, %lost ], [ %mine_1, %won ]
  %ticket = load atomic i64, ptr %ticket_at acquire, align 8
  %left = and i64 %ticket, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %empty, label %claim
claim:
  %function = load atomic ptr, ptr %fields monotonic, align 8
  %buffers = load atomic ptr, ptr %buffers_at monotonic, align 8
  %parameters = load atomic ptr, ptr %parameters_at monotonic, align 8
  %workgroups = load atomic i64, ptr %workgroups_at monotonic, align 8
  %chunk = load atomic i64, ptr %chunk_at monotonic, align 8
  %chunks = load atomic i64, ptr %chunks_at monotonic, align 8
  %ticket_1 = add i64 %ticket, -1
  %swap = cmpxchg ptr %ticket_at, i64 %ticket, i64 %ticket_1 acq_rel monotonic, align 8
  %ok = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %ok, label %won, label %lost
lost:
  call void @pause()
  br label %look
won:
  %index = sub i64 %chunks, %left
  %first = mul i64 %index, %chunk
  %end = add i64 %first, %chunk
  %over = icmp sgt i64 %end, %workgroups
  %last = select i1 %over, i64 %workgroups, i64 %end
  call void %function(ptr %buffers, ptr %parameters, i64 %first, i64 %last)
  %mine_1 = add i32 %mine, 1
  br label %look
empty:
  %idle = icmp eq i32 %mine, 0
  br i1 %idle, label %out, label %report
report:
  %done_at = getelementptr i8, ptr %ctl, i64 {DONE}
  %waiting_at = getelementptr i8, ptr %ctl, i64 {WAITING}
  %before = atomicrmw add ptr %done_at, i32 %mine seq_cst, align 4
  %asleep = load atomic i32, ptr %waiting_at seq_cst, align 4
  %awake = icmp eq i32 %asleep, 0
  br i1 %awake, label %out, label %rouse
rouse:
  call void @wake(ptr %ctl, ptr %done_at, i32 1)
  br label %out
out:
  ret void
}}

; Wait until all %n chunks are done: spin, then sleep.
define internal void @finish(ptr %ctl, i32 %n) noinline {{
entry:
  %done_at = getelementptr i8, ptr %ctl, i64 {DONE}
  %quick = load atomic i32, ptr %done_at acquire, align 4
  %ready = icmp eq i32 %quick, %n
  br i1 %ready, label %out, label %start
start:
  %waiting_at = getelementptr i8, ptr %ctl, i64 {WAITING}
  %spin_at = getelementptr i8, ptr %ctl, i64 {SPIN_NS}
  %spin_ns = load i64, ptr %spin_at
  %began = call i64 @now()
  br label %look
look:
  %turn = phi i32 [ 0, %start ], [ %turn_1, %again ], [ 0, %clock ]
  %done = load atomic i32, ptr %done_at acquire, align 4
  %all = icmp eq i32 %done, %n
  br i1 %all, label %out, label %again
again:
  call void @pause()
  %turn_1 = add i32 %turn, 1
  %tired = icmp eq i32 %turn_1, 64
  br i1 %tired, label %clock, label %look
clock:
  %time = call i64 @now()
  %spent = sub i64 %time, %began
  %spin = icmp slt i64 %spent, %spin_ns
  br i1 %spin, label %look, label %doze
doze:
  store atomic i32 1, ptr %waiting_at seq_cst, align 4
  br label %check
check:
  %count = load atomic i32, ptr %done_at seq_cst, align 4
  %complete = icmp eq i32 %count, %n
  br i1 %complete, label %awake, label %sleep
sleep:
  call void @wait(ptr %ctl, ptr %done_at, i32 %count)
  br label %check
awake:
  store atomic i32 0, ptr %waiting_at monotonic, align 4
  br label %out
out:
  ret void
}}

; One launch shared by all threads.
define internal void @share(ptr %ctl, ptr %function, ptr %buffers, ptr %parameters, i64 %workgroups, i64 %chunk,
                            i64 %chunks) noinline {{
entry:
  call void @place(ptr %ctl)
  %fields = getelementptr i8, ptr %ctl, i64 {FIELDS}
  %buffers_at = getelementptr i64, ptr %fields, i64 1
  %parameters_at = getelementptr i64, ptr %fields, i64 2
  %workgroups_at = getelementptr i64, ptr %fields, i64 3
  %chunk_at = getelementptr i64, ptr %fields, i64 4
  %chunks_at = getelementptr i64, ptr %fields, i64 5
  store atomic ptr %function, ptr %fields monotonic, align 8
  store atomic ptr %buffers, ptr %buffers_at monotonic, align 8
  store atomic ptr %parameters, ptr %parameters_at monotonic, align 8
  store atomic i64 %workgroups, ptr %workgroups_at monotonic, align 8
  store atomic i64 %chunk, ptr %chunk_at monotonic, align 8
  store atomic i64 %chunks, ptr %chunks_at monotonic, align 8
  %done_at = getelementptr i8, ptr %ctl, i64 {DONE}
  store atomic i32 0, ptr %done_at monotonic, align 4
  %sequence_at = getelementptr i8, ptr %ctl, i64 {SEQUENCE}
  %sequence = load i64, ptr %sequence_at
  %sequence_1 = add i64 %sequence, 1
  store i64 %sequence_1, ptr %sequence_at
  %high = shl i64 %sequence_1, 32
  %ticket = or i64 %high, %chunks
  store atomic i64 %ticket, ptr %ctl seq_cst, align 8
  %sleepers_at = getelementptr i8, ptr %ctl, i64 {SLEEPERS}
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %nobody = icmp eq i32 %sleepers, 0
  %n = trunc i64 %chunks to i32
  br i1 %nobody, label %work, label %rouse
rouse:
  %others = add i32 %n, -1
  %few = icmp slt i32 %others, %sleepers
  %needed = select i1 %few, i32 %others, i32 %sleepers
  %was = atomicrmw sub ptr %sleepers_at, i32 %needed seq_cst, align 4
  %wake_at = getelementptr i8, ptr %ctl, i64 {WAKE}
  %old = atomicrmw add ptr %wake_at, i32 1 seq_cst, align 4
  call void @wake(ptr %ctl, ptr %wake_at, i32 %needed)
  br label %work
work:
  call void @drain(ptr %ctl)
  call void @finish(ptr %ctl, i32 %n)
  ret void
}}

; A whole plan: %launches records at %table; start and end of each at %times, unless that is null.
define void @{RUN}(ptr %ctl, ptr %table, i64 %launches, ptr %times) {{
entry:
  %fp = call i64 @enter_fp()
  %threads_at = getelementptr i8, ptr %ctl, i64 {THREADS}
  %threads = load i32, ptr %threads_at
  %single = icmp slt i32 %threads, 2
  %untimed = icmp eq ptr %times, null
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i_1, %next ]
  %over = icmp sge i64 %i, %launches
  br i1 %over, label %out, label %launch
launch:
  %record = getelementptr [{RECORD_BYTES} x i8], ptr %table, i64 %i
  %pair = getelementptr [2 x i64], ptr %times, i64 %i
  br i1 %untimed, label %read, label %start
start:
  %began = call i64 @now()
  store i64 %began, ptr %pair
  br label %read
read:
  %buffers_at = getelementptr i64, ptr %record, i64 1
  %parameters_at = getelementptr i64, ptr %record, i64 2
  %workgroups_at = getelementptr i64, ptr %record, i64 3
  %chunk_at = getelementptr i64, ptr %record, i64 4
  %flags_at = getelementptr i64, ptr %record, i64 5
  %function = load ptr, ptr %record
  %buffers = load ptr, ptr %buffers_at
  %parameters = load ptr, ptr %parameters_at
  %workgroups = load i64, ptr %workgroups_at
  %wish = load i64, ptr %chunk_at
  %flags = load i64, ptr %flags_at
  %empty = icmp slt i64 %workgroups, 1
  br i1 %empty, label %done, label %split
split:
  ; at most 2^31 chunks, and never a chunk of none
  %fewest = lshr i64 %workgroups, 31
  %least = add i64 %fewest, 1
  %small = icmp slt i64 %wish, %least
  %chunk = select i1 %small, i64 %least, i64 %wish
  %one = icmp sge i64 %chunk, %workgroups
  %order = and i64 %flags, {ORDERED}
  %ordered = icmp ne i64 %order, 0
  %alone_1 = or i1 %one, %ordered
  %alone = or i1 %alone_1, %single
  br i1 %alone, label %direct, label %shared
direct:
  call void %function(ptr %buffers, ptr %parameters, i64 0, i64 %workgroups)
  br label %done
shared:
  %less = add i64 %workgroups, -1
  %full = udiv i64 %less, %chunk
  %chunks = add i64 %full, 1
  call void @share(ptr %ctl, ptr %function, ptr %buffers, ptr %parameters, i64 %workgroups, i64 %chunk, i64 %chunks)
  br label %done
done:
  br i1 %untimed, label %next, label %end
end:
  %ended = call i64 @now()
  %end_at = getelementptr i64, ptr %pair, i64 1
  store i64 %ended, ptr %end_at
  br label %next
next:
  %i_1 = add i64 %i, 1
  br label %loop
out:
  call void @leave_fp(i64 %fp)
  ret void
}}

; The life of a worker thread.
define void @{WORKER}(ptr %ctl) {{
entry:
  %fp = call i64 @enter_fp()
  %stop_at = getelementptr i8, ptr %ctl, i64 {STOP}
  %sleepers_at = getelementptr i8, ptr %ctl, i64 {SLEEPERS}
  %wake_at = getelementptr i8, ptr %ctl, i64 {WAKE}
  %spin_at = getelementptr i8, ptr %ctl, i64 {SPIN_NS}
  %spin_ns = load i64, ptr %spin_at
  %arrived_at = getelementptr i8, ptr %ctl, i64 {ARRIVED}
  %arrived = atomicrmw add ptr %arrived_at, i32 1 seq_cst, align 4
  br label %idle
idle:
  %began = call i64 @now()
  br label %look
look:
  %turn = phi i32 [ 0, %idle ], [ %turn_1, %again ], [ 0, %clock ]
  %ticket = load atomic i64, ptr %ctl acquire, align 8
  %left = trunc i64 %ticket to i32
  %none = icmp eq i32 %left, 0
  br i1 %none, label %again, label %work
again:
  call void @pause()
  %turn_1 = add i32 %turn, 1
  %tired = icmp eq i32 %turn_1, 64
  br i1 %tired, label %clock, label %look
clock:
  %time = call i64 @now()
  %spent = sub i64 %time, %began
  %spin = icmp slt i64 %spent, %spin_ns
  br i1 %spin, label %look, label %doze
doze:
  %word = load atomic i32, ptr %wake_at seq_cst, align 4
  %before = atomicrmw add ptr %sleepers_at, i32 1 seq_cst, align 4
  %ticket_2 = load atomic i64, ptr %ctl seq_cst, align 8
  %left_2 = trunc i64 %ticket_2 to i32
  %none_2 = icmp eq i32 %left_2, 0
  br i1 %none_2, label %leaving, label %work
leaving:
  %stop = load atomic i32, ptr %stop_at seq_cst, align 4
  %stay = icmp eq i32 %stop, 0
  br i1 %stay, label %sleep, label %out
sleep:
  call void @wait(ptr %ctl, ptr %wake_at, i32 %word)
  br label %idle
work:
  call void @drain(ptr %ctl)
  br label %idle
out:
  call void @leave_fp(i64 %fp)
  ret void
}}

; Wake every worker, so that it sees STOP.
define void @{WAKE_ALL}(ptr %ctl) {{
  %stop_at = getelementptr i8, ptr %ctl, i64 {STOP}
  store atomic i32 1, ptr %stop_at seq_cst, align 4
  %wake_at = getelementptr i8, ptr %ctl, i64 {WAKE}
  %old = atomicrmw add ptr %wake_at, i32 1 seq_cst, align 4
  call void @wake(ptr %ctl, ptr %wake_at, i32 2147483647)
  ret void
}}
"""
