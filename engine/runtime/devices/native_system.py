"""What the launch and worker loops of `native_ir` need from a system and a processor, as LLVM IR.

Sleeping: a futex on Linux, WaitOnAddress on Windows, a mutex and a condition of pthread elsewhere. Time: a monotonic
clock in nanoseconds. Placement of threads: Linux only, elsewhere nothing. Processor: the instruction that eases a
spinning core, and the control register of floating point. Everything has a form that works on any POSIX system and
processor; what is better somewhere is chosen by name, and every variant can be generated, if not run, on every
machine.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import time

from engine.runtime.devices.native_ir import CONDITION, CPU, IDS, LOOPS, MUTEX, THREADS

_FUTEX_NUMBER = {"x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
_X86 = ("x86_64", "amd64")
_ARM = ("aarch64", "arm64")


def waiting(system: str = sys.platform, machine: str = platform.machine()) -> str:
    """How threads sleep on a system: `futex` (Linux), `address` (Windows), or `pthread` (everywhere else)."""
    if system.startswith("linux") and machine.lower() in _FUTEX_NUMBER:
        return "futex"
    return "address" if system == "win32" else "pthread"


def clock_id() -> int:
    """The POSIX clock that launches are timed with: monotonic, in nanoseconds; -1 where there is no POSIX clock."""
    fine = getattr(time, "CLOCK_UPTIME_RAW", None)  # macOS: its CLOCK_MONOTONIC counts microseconds
    return int(fine if fine is not None else getattr(time, "CLOCK_MONOTONIC", -1))


def runtime_ir(wait: str, machine: str = platform.machine(), clock: int | None = None, ticks: int | None = None) -> str:
    """The IR text of the whole runtime.

    wait: `futex`, `address` or `pthread`. machine: as `platform.machine()` names it. clock: a POSIX clock, or -1 for
    Windows' performance counter, which has `ticks` a second; by default what this system has.
    """
    machine = machine.lower()
    if clock is None:
        clock = clock_id()
    if ticks is None:
        ticks = _performance_frequency() if clock < 0 else 0
    return "\n".join((_wait(wait, machine), _place(wait), _clock(clock, ticks), _processor(machine), LOOPS))


def _performance_frequency() -> int:
    """Ticks a second of Windows' performance counter."""
    frequency = ctypes.c_int64()
    ctypes.CDLL("kernel32").QueryPerformanceFrequency(ctypes.byref(frequency))
    return frequency.value


def _wait(wait: str, machine: str) -> str:
    """@wait sleeps while the word at %address equals %value; @wake wakes up to %n threads that sleep on %address."""
    if wait == "futex":
        number = _FUTEX_NUMBER[machine]
        call = f"call i64 (i64, ...) @syscall(i64 {number}, ptr %address"
        return f"""
declare i64 @syscall(i64, ...)
define internal void @wait(ptr %ctl, ptr %address, i32 %value) noinline {{
  {call}, i64 128, i32 %value, i64 0, i64 0, i64 0)
  ret void
}}
define internal void @wake(ptr %ctl, ptr %address, i32 %n) noinline {{
  {call}, i64 129, i32 %n, i64 0, i64 0, i64 0)
  ret void
}}"""
    if wait == "address":
        return """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressAll(ptr)
define internal void @wait(ptr %ctl, ptr %address, i32 %value) noinline {
  %compare = alloca i32
  store i32 %value, ptr %compare
  call i32 @WaitOnAddress(ptr %address, ptr %compare, i64 4, i32 -1)
  ret void
}
define internal void @wake(ptr %ctl, ptr %address, i32 %n) noinline {
  call void @WakeByAddressAll(ptr %address)
  ret void
}"""
    return f"""
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
define internal void @wait(ptr %ctl, ptr %address, i32 %value) noinline {{
  %mutex = getelementptr i8, ptr %ctl, i64 {MUTEX}
  %condition = getelementptr i8, ptr %ctl, i64 {CONDITION}
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %test
test:
  %now = load atomic i32, ptr %address seq_cst, align 4
  %same = icmp eq i32 %now, %value
  br i1 %same, label %sleep, label %out
sleep:
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %test
out:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}
define internal void @wake(ptr %ctl, ptr %address, i32 %n) noinline {{
  %mutex = getelementptr i8, ptr %ctl, i64 {MUTEX}
  %condition = getelementptr i8, ptr %ctl, i64 {CONDITION}
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %condition)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}"""


def _place(wait: str) -> str:
    """@place keeps the workers off the caller's processor. It does nothing on one processor, or beyond number 1023."""
    if wait != "futex":
        return """
define internal void @place(ptr %ctl) noinline {
  ret void
}"""
    return f"""
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define internal void @place(ptr %ctl) noinline {{
entry:
  %set = alloca [16 x i64]
  %ids_at = getelementptr i8, ptr %ctl, i64 {IDS}
  %ids = load ptr, ptr %ids_at
  %off = icmp eq ptr %ids, null
  br i1 %off, label %out, label %compare
compare:
  %cpu_at = getelementptr i8, ptr %ctl, i64 {CPU}
  %last = load i32, ptr %cpu_at
  %cpu = call i32 @sched_getcpu()
  %same = icmp eq i32 %cpu, %last
  %beyond = icmp ugt i32 %cpu, 1023
  %keep = or i1 %same, %beyond
  br i1 %keep, label %out, label %ask
ask:
  store i32 %cpu, ptr %cpu_at
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 128, i1 false)
  %answer = call i32 @sched_getaffinity(i32 0, i64 128, ptr %set)
  %failed = icmp slt i32 %answer, 0
  br i1 %failed, label %out, label %clear
clear:
  %n = zext i32 %cpu to i64
  %word = lshr i64 %n, 6
  %bit = and i64 %n, 63
  %one = shl i64 1, %bit
  %mask = xor i64 %one, -1
  %word_at = getelementptr i64, ptr %set, i64 %word
  %old = load i64, ptr %word_at
  %new = and i64 %old, %mask
  store i64 %new, ptr %word_at
  %words = load <16 x i64>, ptr %set, align 8
  %any = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %words)
  %alone = icmp eq i64 %any, 0
  br i1 %alone, label %out, label %start
start:
  %threads_at = getelementptr i8, ptr %ctl, i64 {THREADS}
  %threads = load i32, ptr %threads_at
  %workers = add i32 %threads, -1
  br label %loop
loop:
  %i = phi i32 [ 0, %start ], [ %i_1, %tell ]
  %more = icmp slt i32 %i, %workers
  br i1 %more, label %tell, label %out
tell:
  %i_1 = add i32 %i, 1
  %at = getelementptr i32, ptr %ids, i32 %i
  %id = load i32, ptr %at
  %told = call i32 @sched_setaffinity(i32 %id, i64 128, ptr %set)
  br label %loop
out:
  ret void
}}
declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)"""


def _clock(clock: int, ticks_per_second: int) -> str:
    """@now: nanoseconds of a monotonic clock."""
    if clock < 0:
        return f"""
declare i32 @QueryPerformanceCounter(ptr)
define internal i64 @now() noinline {{
  %at = alloca i64
  call i32 @QueryPerformanceCounter(ptr %at)
  %ticks = load i64, ptr %at
  %whole = sdiv i64 %ticks, {ticks_per_second}
  %rest = srem i64 %ticks, {ticks_per_second}
  %whole_ns = mul i64 %whole, 1000000000
  %scaled = mul i64 %rest, 1000000000
  %rest_ns = sdiv i64 %scaled, {ticks_per_second}
  %ns = add i64 %whole_ns, %rest_ns
  ret i64 %ns
}}"""
    return f"""
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() noinline {{
  %at = alloca [2 x i64]
  call i32 @clock_gettime(i32 {clock}, ptr %at)
  %s = load i64, ptr %at
  %fraction = getelementptr i64, ptr %at, i64 1
  %f = load i64, ptr %fraction
  %s_ns = mul i64 %s, 1000000000
  %ns = add i64 %s_ns, %f
  ret i64 %ns
}}"""


def _processor(machine: str) -> str:
    """@pause eases a spinning core; @enter_fp sets the default floating-point environment and returns the old one."""
    if machine in _X86:
        return """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
define internal i64 @enter_fp() noinline {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %old = load i32, ptr %word
  store i32 8064, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  %r = zext i32 %old to i64
  ret i64 %r
}
define internal void @leave_fp(i64 %old) noinline {
  %word = alloca i32
  %t = trunc i64 %old to i32
  store i32 %t, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}"""
    if machine in _ARM:
        return """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define internal void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}
define internal i64 @enter_fp() noinline {
  %old = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret i64 %old
}
define internal void @leave_fp(i64 %old) noinline {
  call void @llvm.aarch64.set.fpcr(i64 %old)
  ret void
}"""
    return """
define internal void @pause() alwaysinline {
  fence syncscope("singlethread") seq_cst
  ret void
}
define internal i64 @enter_fp() {
  ret i64 0
}
define internal void @leave_fp(i64 %old) {
  ret void
}"""
