"""A guest runs only on a thread with at least 16 MiB of stack.

The engine bounds a guest's stack, but the guest uses the stack of the calling thread, on top of the
interpreter's part. On a thread whose stack is smaller than that bound, deep recursion in a guest
kills the process instead of failing one instance.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from aos.errors import Refused
from aos.sandbox.caps import KIB, MIB

THREAD_STACK_BYTES: Final = 16 * MIB
"""The ``threading.stack_size`` for a thread that runs guests."""

# A thread's guard page and local storage are part of the requested size.
_OVERHEAD_BYTES: Final = 64 * KIB

_T = TypeVar("_T")
_size_lock = threading.Lock()
_thread = threading.local()


@contextlib.contextmanager
def big_stacks() -> Iterator[None]:
    """Give threads that are started inside this block a stack on which guests may run."""
    with _size_lock:
        previous_bytes = threading.stack_size(THREAD_STACK_BYTES)
        try:
            yield
        finally:
            threading.stack_size(previous_bytes)


def run_on_big_stack(function: Callable[[], _T]) -> _T:
    """Call ``function`` on its own thread and wait. Raises what it raises."""
    returned: list[_T] = []
    raised: list[BaseException] = []

    def body() -> None:
        try:
            returned.append(function())
        except BaseException as problem:  # noqa: BLE001  # raised in the caller, of any type
            raised.append(problem)

    thread = threading.Thread(target=body, name="aos-big-stack")
    with big_stacks():
        thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return returned[0]


def require_big_stack() -> None:
    """Raise ``Refused`` unless guests may run on this thread. Cheap after the first time."""
    if getattr(_thread, "is_big", False):
        return
    actual_bytes = stack_bytes()
    if actual_bytes is not None and actual_bytes < THREAD_STACK_BYTES - _OVERHEAD_BYTES:
        raise Refused(
            "the stack of this thread is too small to run modules on",
            location=f"thread {threading.current_thread().name}",
            expected=f"{THREAD_STACK_BYTES} bytes",
            actual=f"{actual_bytes}",
            hint="start the thread inside aos.sandbox.stack.big_stacks()",
        )
    _thread.is_big = True


def stack_bytes() -> int | None:
    """Size of this thread's stack; None if the platform does not report it."""
    import ctypes  # noqa: PLC0415  # only a thread that runs guests needs it

    library = ctypes.CDLL(None)
    try:
        read = library.pthread_getattr_np
    except AttributeError:
        return None
    library.pthread_self.restype = ctypes.c_void_p
    attributes = ctypes.create_string_buffer(256)
    if read(ctypes.c_void_p(library.pthread_self()), attributes) != 0:
        return None
    try:
        size = ctypes.c_size_t()
        library.pthread_attr_getstacksize(attributes, ctypes.byref(size))
        return size.value
    finally:
        library.pthread_attr_destroy(attributes)
