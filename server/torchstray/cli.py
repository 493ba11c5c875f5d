"""The command line."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from torchstray import files, run
from torchstray.config import NOTICES, BadConfiguration, Configurations, Overrides, absolute, rule_names, unknown_rule
from torchstray.report import concise, full, summary
from torchstray.report import diff as diff_report
from torchstray.report import json as json_report
from torchstray.report import statistics as statistics_report
from torchstray.report.summary import counted
from torchstray.rules.rule import Severity

FAILED = 2
INTERRUPTED = 130
STDIN = Path("-")
FILE_PROBLEMS = ("internal-error", "unreadable-file")
"""What is found instead of anything in a file."""
PATIENCE = 1.0
"""Seconds of work without a progress bar."""


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> frozenset[str] | None:
    """Read rule names with commas between them; None where none is given."""
    if not values:
        return None
    names = ",".join(values).replace(",", " ").split()
    if not names:
        raise click.BadParameter("it names no rule", ctx, param)
    known = (*rule_names(), *NOTICES) if param.name == "ignore" else rule_names()
    for name in names:
        if name not in known:
            raise click.BadParameter(unknown_rule(name, known), ctx, param)
    return frozenset(names)


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from torchstray import __version__

        click.echo(f"torchstray {__version__}")
        ctx.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Find the tensors and layers that model.to(device) leaves behind, and repair them."""


@cli.command()
@click.argument("paths", nargs=-1, type=click.Path(readable=False, path_type=Path))
@click.option("--fix", is_flag=True, help="Repair what can be repaired safely.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: make the unsafe repairs too.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing, even with --fix.")
@click.option("--select", callback=_names, multiple=True, metavar="RULES", help="Check these rules only.")
@click.option("--extend-select", callback=_names, multiple=True, metavar="RULES", help="Check these rules too.")
@click.option("--ignore", callback=_names, multiple=True, metavar="RULES", help="Leave these rules out.")
@click.option(
    "--output-format",
    type=click.Choice(["full", "concise", "json"]),
    default="full",
    show_default=True,
    help="How to report.",
)
@click.option(
    "--min-severity",
    type=click.Choice(["error", "warning", "hint"]),
    help="Report, and repair, nothing quieter.  [default: warning; for json, hint]",
)
@click.option("--report-unused-suppressions", is_flag=True, help="Report suppression comments that silence nothing.")
@click.option("--statistics", is_flag=True, help="Show only how many problems there are of each rule.")
@click.option("--exit-zero", is_flag=True, help="End with status 0 even if there are problems.")
@click.option(
    "--stdin-filename",
    type=click.Path(readable=False, path_type=Path),
    help="The name of what comes from standard input.",
)
@click.option(
    "--config", type=click.Path(readable=False, path_type=Path), help="Use this TOML file, and no pyproject.toml."
)
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option("--jobs", type=click.IntRange(min=1), help="How many processes to use at most.")
@click.option("--verbose", is_flag=True, help="Say on standard error what is done and what went wrong.")
def check(
    paths: tuple[Path, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    select: frozenset[str] | None,
    extend_select: frozenset[str] | None,
    ignore: frozenset[str] | None,
    output_format: str,
    min_severity: str | None,
    report_unused_suppressions: bool,
    statistics: bool,
    exit_zero: bool,
    stdin_filename: Path | None,
    config: Path | None,
    isolated: bool,
    jobs: int | None,
    verbose: bool,
) -> int:
    """Check files, and all Python files in folders; with - what comes from standard input.

    The exit status is 0 if nothing was found, 1 if there are warnings or errors (with --diff: changes), and 2 if the
    run itself failed.
    """
    from_stdin = STDIN in paths
    if from_stdin and len(paths) > 1:
        raise click.UsageError("- stands alone: standard input is checked by itself.")
    overrides = Overrides(
        select,
        extend_select or frozenset(),
        ignore or frozenset(),
        report_unused_suppressions=report_unused_suppressions or None,
    )
    configurations = _configurations(config, isolated, overrides)
    # People ask for hints; programs read the severity of each finding and choose for themselves.
    quietest = Severity[(min_severity or ("hint" if output_format == "json" else "warning")).upper()]
    fix = fix and not diff
    task = run.Task(quietest, repair=fix or diff, unsafe=unsafe_fixes, write=fix)
    log = Log(verbose)
    if from_stdin:
        number, results = 1, [_check_stdin(stdin_filename or STDIN, configurations, task)]
    else:
        number, results = _check_files(paths or (Path(),), configurations, task, jobs, log)
    for result in results:
        _comment(result, log)
    if diff:
        problems = _show_diff(results)
    else:
        # With `--fix -` the repaired text has standard output for itself.
        _show(results, number, output_format, statistics, beside=fix and from_stdin)
        problems = any(finding.severity >= Severity.WARNING for result in results for finding in result.findings)
    if any(result.failure is not None for result in results):
        return FAILED
    return 1 if problems and not exit_zero else 0


def _configurations(config: Path | None, isolated: bool, overrides: Overrides | None = None) -> Configurations:
    if config is not None and isolated:
        raise click.UsageError("--config and --isolated exclude each other.")
    return Configurations(config, isolated, overrides)


def _check_stdin(path: Path, configurations: Configurations, task: run.Task) -> run.FileResult:
    """Check standard input, and with `--fix` write it, repaired or not, to standard output."""
    if sys.stdin is None:
        raise files.UnusablePath("standard input is closed")
    data = sys.stdin.buffer.read()
    result, output = run.check_stream(path, data, configurations.of(path.parent), task)
    if task.write:
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
    return result


def _check_files(
    paths: Sequence[Path], configurations: Configurations, task: run.Task, jobs: int | None, log: Log
) -> tuple[int, list[run.FileResult]]:
    """Return how many files there are, and the results of those that concern torch."""
    found = files.find(paths, configurations)
    if not found:
        click.echo(f"No Python files found under {', '.join(map(str, paths))}.", err=True)
    work = [(path, configurations.of(path.parent)) for path in found]
    for file in dict.fromkeys(configuration.file for _, configuration in work):
        log.say(f"configuration: {file or 'none'}")
    total, results = run.run(work, task, jobs)
    log.say(f"files: {len(found)}, of which {total} are looked into")
    return len(found), list(_watched(total, results))


def _watched(total: int, results: Iterator[run.FileResult]) -> Iterator[run.FileResult]:
    """Pass the results on, with a progress bar if there is somebody to see it and the work is long."""
    start = time.monotonic()
    for number, result in enumerate(results, 1):
        yield result
        if number < total and time.monotonic() - start > PATIENCE and sys.stderr.isatty():
            break
    else:
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("Checking", total=total, completed=number)
        for result in results:
            yield result
            progress.advance(bar)


def _comment(result: run.FileResult, log: Log) -> None:
    """Say what went wrong with one file, besides its findings."""
    if result.failure is not None:
        click.echo(f"{result.shown_path} {result.failure}.", err=True)
    if result.trace is not None:
        log.say(f"{result.shown_path}: {result.trace}")
    for finding in result.refused:
        row, _ = result.lines.position(finding.span.start)
        click.echo(f"{result.shown_path}:{row}: the repair of {finding.rule} was not made: it does not help.", err=True)


def _show(results: Sequence[run.FileResult], number: int, output_format: str, statistics: bool, beside: bool) -> None:
    """Report the findings in `number` files, on standard error if `beside`."""
    colour = _colour(sys.stderr if beside else sys.stdout)
    if output_format == "json":
        click.echo(statistics_report.render_json(results) if statistics else json_report.render(results), err=beside)
        return
    if statistics:
        lines = statistics_report.render(results)
    elif output_format == "concise":
        lines = concise.render(results)
    else:
        lines = full.render(results, colour)
    for line in lines:
        click.echo(line, err=beside, color=colour)
    findings = [finding for result in results for finding in result.findings]
    repaired = sum(len(result.applied) for result in results)
    click.echo(summary.render(findings, repaired, number), err=beside)


def _show_diff(results: Sequence[run.FileResult]) -> bool:
    """Show what the repairs would change, and on standard error the files that could not be looked into.

    Tell whether there is anything of either.
    """
    colour = _colour(sys.stdout)
    changed = [result for result in results if result.after != result.before]
    for result in changed:
        for text in diff_report.render(result.shown_path, result.before, result.after, colour):
            click.echo(text, nl=False, color=colour)
    failed = [
        replace(result, findings=tuple(finding for finding in result.findings if finding.rule in FILE_PROBLEMS))
        for result in results
    ]
    lines = list(concise.render(failed))
    for line in lines:
        click.echo(line, err=True)
    repaired = sum(len(result.applied) for result in changed)
    click.echo(f"Would repair {counted(repaired, 'problem')} in {counted(len(changed), 'file')}.", err=True)
    return bool(changed or lines)


def _colour(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


@cli.command()
@click.argument("name", required=False)
def rule(name: str | None) -> None:
    """Explain a rule, or list all rules."""
    from torchstray.report import rule_page
    from torchstray.rules import all_rules

    if name is None:
        for line in rule_page.overview(all_rules()):
            click.echo(line)
        return
    rules = {rule.name: rule for rule in all_rules()}
    if name in NOTICES:
        click.echo(NOTICES[name])
    elif name not in rules:
        raise click.BadParameter(f"{unknown_rule(name, (*rules, *NOTICES))}")
    elif _colour(sys.stdout):
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(rule_page.render(rules[name])))
    else:
        click.echo(rule_page.render(rules[name]), nl=False)


@cli.command("config")
@click.argument("path", type=click.Path(readable=False, path_type=Path), default=Path())
@click.option(
    "--config", type=click.Path(readable=False, path_type=Path), help="Use this TOML file, and no pyproject.toml."
)
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def show_configuration(path: Path, config: Path | None, isolated: bool) -> None:
    """Show what is set for a file or folder, where it is set, and why a rule is off or the file is skipped."""
    from torchstray.report import settings

    configurations = _configurations(config, isolated)
    files.require(path)
    skipped = files.why_skipped(path, configurations)
    idle = None
    if os.path.isfile(path) and not run.may_concern_torch(files.read(path)):  # noqa: PTH113  # it never raises
        idle = "the word torch is not in it"
    configuration = configurations.of(path if path.is_dir() else path.parent)
    for line in settings.render(absolute(path), skipped, idle, configuration):
        click.echo(line)


@cli.command()
@click.option("--stdio", is_flag=True, help="Talk over standard input and output; there is no other way.")
def server(stdio: bool) -> int:
    """Run the language server, for an editor to start."""
    from torchstray.lsp.features import serve

    return serve()


class Log:
    """What was done, and the tracebacks of our own mistakes: on standard error if `verbose`, and at the end of the file
    that TORCHSTRAY_LOG names."""

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._file = os.environ.get("TORCHSTRAY_LOG")

    def say(self, message: str) -> None:
        """Write a message down. A log that cannot be written stops nothing."""
        if self._verbose:
            click.echo(message.rstrip(), err=True)
        if self._file:
            with contextlib.suppress(OSError), Path(self._file).open("a", encoding="utf-8") as file:
                file.write(f"{message.rstrip()}\n")


def main() -> int:
    """Run the command line and return its exit status."""
    if sys.stderr is None:  # closed: there is nobody to tell
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # for as long as we run
    try:
        return _main()
    except OSError:  # standard error cannot be written to; what it still holds must not fail again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        return FAILED


def _main() -> int:
    if sys.stdout is None:
        click.echo("Error: standard output is closed", err=True)
        return FAILED
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = cli.main(prog_name="torchstray", standalone_mode=False)
        if not sys.stdout.closed:  # as the language server leaves it
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (files.UnusablePath, files.UnreadableFile, BadConfiguration) as error:
        click.echo(f"Error: {error}", err=True)
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; what is still in the buffer must not fail again when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        return FAILED
    except Exception as error:  # noqa: BLE001  # no user can do anything with a traceback
        import traceback

        Log(verbose="--verbose" in sys.argv).say(traceback.format_exc())
        click.echo(
            f"Error: {type(error).__name__}: {error}; this is a mistake in torchstray, please report it", err=True
        )
        return FAILED
    return status if isinstance(status, int) else 0
