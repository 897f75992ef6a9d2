"""Entry point of the `ragcli` command: signals, error messages and exit codes.

A command answers, or raises what it cannot do. Here that becomes one sentence on stderr and an exit code; no mistake
of a person, a file or a disk ends in a traceback.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import errno
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final, NoReturn

from ragcli.cli import terminal
from ragcli.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_INTERRUPTED, FilterError, RagcliError

EXIT_BUG: Final = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code. `arguments` are those of the process unless given."""
    # The products here are small, and on a busy machine numpy's threads wait for each other longer than they compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if arguments is None:
        terminal.open_closed_streams()
        # What is written here holds people's documents, or what is done with them: it is for the user alone.
        os.umask(0o077)
        end_as_by_ctrl_c()
    terminal.prepare_streams()
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except (terminal.OutputClosedError, BrokenPipeError):
        terminal.discard_stdout()
        code = EXIT_DONE
    except RagcliError as error:
        terminal.note(_sentence(error), _fault_lines(error))
        code = error.exit_code
    except KeyboardInterrupt:
        terminal.note("interrupted.")
        code = EXIT_INTERRUPTED
    except MemoryError:
        terminal.note("there is not enough memory for this.")
        code = EXIT_BAD_INPUT
    except OSError as error:
        terminal.note(os_error_sentence(error))
        code = EXIT_BAD_INPUT
    except Exception as error:
        if os.environ.get("RAGCLI_DEBUG"):
            import traceback

            sys.stderr.write(terminal.safe(traceback.format_exc()))
        terminal.note(f"this is a bug in ragcli ({type(error).__name__}: {error}); RAGCLI_DEBUG=1 shows where.")
        code = EXIT_BUG
    return code


def console() -> NoReturn:
    """The command itself: `main`, and out.

    Taking down the interpreter and the libraries in good order takes 0.1 s, for memory that the system takes back
    anyway. So where nothing waits to be ended, the process goes as soon as all is written and tidied away.
    """
    # Most of what a process makes first are modules, classes and functions, and those stay: nothing to collect.
    gc.set_threshold(50_000)
    code = main()
    threads = sys.modules.get("threading")
    if "multiprocessing" in sys.modules or (threads and any(not each.daemon for each in threads.enumerate()[1:])):
        sys.exit(code)
    atexit._run_exitfuncs()  # noqa: SLF001
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Parse the arguments and call the command. Raises RagcliError, also for a call that cannot be parsed."""
    import typer

    from ragcli.cli.app import root_command
    from ragcli.cli.lazy_group import usage_error

    try:
        code = root_command().main(list(arguments), prog_name=terminal.PROGRAM, standalone_mode=False)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except SystemExit as left:
        # The parser prints help itself, and where nobody reads that any more, it leaves with 1.
        if isinstance(left.__context__, OSError) and left.__context__.errno == errno.EPIPE:
            raise BrokenPipeError from None
        raise
    except Exception as error:
        if usage := usage_error(error):
            raise usage from None
        raise
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else EXIT_DONE


def end_as_by_ctrl_c() -> None:
    """Let SIGTERM end the process in good order, as Ctrl-C does: files closed, workers gone, the last commit kept."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    # Where Ctrl-C is ignored, as in a shell's background, passing it on would make the process hard to end.
    if callable(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, though not amid Python's own steps of an import, but right after them.

    There it can be lost, and leave behind a lock that every other thread waits for when it imports something: a
    query whose threads wait for each other for ever.
    """
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        _thread.start_new_thread(_signal_soon, (_thread.get_ident(), number))
        return
    raise KeyboardInterrupt


def _signal_soon(thread: int, number: int) -> None:
    time.sleep(0.01)
    signal.pthread_kill(thread, number)


def _sentence(error: RagcliError) -> str:
    """What is wrong. The library names options; here they get their flags."""
    from ragcli.options import OptionError

    if not isinstance(error, OptionError):
        return error.sentence
    from ragcli.options.command_options import flag_of

    return error.spelled(flag_of)


def _fault_lines(error: RagcliError) -> Sequence[str]:
    """The filter's expression with a caret under the fault, within the terminal's width; nothing for other errors."""
    if not isinstance(error, FilterError) or error.expression is None:
        return ()
    from ragcli.text.caret import caret_lines

    return caret_lines(error.expression, error.at, terminal.stderr_width())


def os_error_sentence(error: OSError) -> str:
    """What the operating system refused, and for which file."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}." if error.filename else f"{reason}."


if __name__ == "__main__":
    console()
