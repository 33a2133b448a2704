"""Every use of a private Textual name, each of which works around something slow or unsafe.

Tested with Textual 8.2. If Textual drops a private name, only the workaround that needs it stops working.
`missing` reports such names after the program has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import queue
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TextIO, cast

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import App, ScreenStackError
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.command import CommandList, CommandPalette
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, InputEvent, Mount, Resize, ScreenResume
from textual.geometry import Region, Size
from textual.message_pump import MessagePump
from textual.reactive import Reactive
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import AwaitMount, Widget

from grpo_tui.present.glyphs import to_ascii

NEEDED = {
    "App": {
        "_driver": "the terminal's title, and the whole screen after ctrl+z",
        "_get_screen": "speed: what is opened is styled twice",
        "_css_update_count": "speed: a pane is styled again when it is first opened",
        "_display": "fewer bytes: cells that the terminal already shows are sent again",
        "_background_screens": "speed: what an opaque screen covers is painted too",
        "_handle_exception": "leaving without an error while a screen is still being put up",
        "_replace_screen": "leaving a screen that is still being put up, and the memory of closed ones",
    },
    "Screen": {
        "_compositor": "speed: a pane is laid out again whenever it is shown",
        "_screen_resized": "speed: a pane is laid out again whenever it is shown",
        "_mounted_event": "leaving a screen that is still being put up",
        "_styles_cache": "the memory of closed screens",
    },
    "Driver": {
        "_file": "the end of the program when its terminal is gone",
        "_writer_thread": "leaving out pictures that a slow terminal cannot take",
    },
    "WriterThread": {"_queue": "leaving out pictures that a slow terminal cannot take"},
    "CommandPalette": {
        "_watch__list_visible": "leaving the palette while it searches",
        "_action_command_list": "a page down in a palette without room for a line",
    },
}
"""For each of Textual's classes: its private attributes, and what is lost without each."""

BEGIN_S = 20.0
"""Time a screen that is left at once may need to mount on a busy machine."""
LOOK_EVERY_S = 2.0
QUIET_S = 1.5
"""After this long without input, the user is considered idle."""
APART_S = 60.0
"""Minimum time between two full collections."""
LONGEST_S = 75.0
"""Maximum time between them under constant input. Closed screens are only freed by a full collection."""
YOUNG = 10
"""Collections of the middle generation that make a full one worthwhile, as in Python's default threshold."""
NEVER = 1_000_000_000


def missing(app: App[Any]) -> list[str]:
    """Return a sentence for each private name this version of Textual lacks."""
    driver = app.driver if isinstance(app, TunedApp) and isinstance(app.driver, PatientDriver) else None
    owners = {
        "App": (App, app),
        "Screen": (Screen, app.screen),
        "Driver": (LinuxDriver, driver),
        "WriterThread": (None, getattr(driver, "_writer_thread", None)),
        "CommandPalette": (CommandPalette, CommandPalette),
    }
    return [
        f"Textual {_version()} has no {owner}.{name}. Lost without it: {lost}."
        for owner, names in NEEDED.items()
        for name, lost in names.items()
        if owners[owner][1] is not None and not any(hasattr(of, name) for of in owners[owner])
    ]


def _version() -> str:
    from importlib.metadata import version  # takes as long as a tenth of Textual

    return version("textual")


def leave_whole_collections_to_the_app() -> None:
    """Disable automatic full garbage collections; young generations are still collected."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)
    gc.freeze()  # no collection looks at modules again
    gc.enable()


class TunedApp(App[str]):
    """An app that keeps pane styles, frees closed screens, and runs full garbage collections while idle.

    Python would run one at any moment, depending on object counts, and block all keys for a tenth of a
    second.
    """

    _switches = False
    _painted = Size()
    """Size of the last frame."""
    _touched_at = _collected_at = float("-inf")

    @property
    def driver(self) -> Driver | None:
        """The terminal driver; None before it exists."""
        return getattr(self, "_driver", None)

    def on_mount(self) -> None:
        for sentence in missing(self):
            self.log.warning(sentence)
        self._collected_at = time.monotonic()
        self.set_interval(LOOK_EVERY_S, self.collect_when_quiet)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, InputEvent):
            self._touched_at = time.monotonic()
        await super().on_event(event)
        if isinstance(event, Resize) and isinstance(self.driver, PatientDriver):
            self.driver.shown_cells.forget()  # the terminal may have cut lines or moved them
            self.screen.refresh()

    def untouched_s(self) -> float:
        """Return the seconds since the last input. Safe from any thread."""
        return time.monotonic() - self._touched_at

    @property
    def quiet(self) -> bool:
        return self.untouched_s() > QUIET_S

    def collect_when_quiet(self) -> bool:
        """Run a full collection if the user is idle or it is overdue. Return whether it ran."""
        now = time.monotonic()
        since = now - self._collected_at
        due = gc.get_count()[2] > YOUNG and since > (APART_S if self.quiet else LONGEST_S)
        if due:
            gc.collect()
            self._collected_at = now
        return due

    # -- screens ---------------------------------------------------------------------------------

    @property
    def _sizes(self) -> set[str]:
        return {name for _, name in (self.HORIZONTAL_BREAKPOINTS or []) + (self.VERTICAL_BREAKPOINTS or [])}

    def _get_screen(self, screen: Screen[Any] | str) -> tuple[Screen[Any], AwaitMount]:
        """Style a new screen once, while it is mounted.

        Textual would read all styles twice for a new pane, a fifth of the time until it is shown. It would
        also set size classes only after everything is styled, and style it again.
        """
        shown = self.screen_stack
        if not shown:
            self.stylesheet.apply(self)  # Textual would do it only after the first screen is styled
        if isinstance(screen, Screen) and not screen.is_running and shown:
            screen.add_class(*(self.screen.classes & self._sizes), update=False)
        found, mounted = super()._get_screen(screen)
        with contextlib.suppress(AttributeError, TypeError):  # another Textual version re-reads all styles
            newest, below = self._css_update_count, shown[-1:]
            if found._css_update_count < 0 and all(one._css_update_count in (-1, newest) for one in below):
                for one in (found, *below):
                    one._css_update_count = newest
        return found, mounted

    def switch_mode(self, mode: str) -> AwaitMount:
        """Show a pane in a single paint, after it has handled what arrived meanwhile."""
        if mode == self.current_mode:
            return super().switch_mode(mode)
        if isinstance(self.driver, PatientDriver):
            self.driver.shown_cells.forget()  # mends what another program has written onto the screen
        held = contextlib.ExitStack()
        held.callback(self.refresh)  # what is on top by then may have painted in vain meanwhile
        held.enter_context(self.batch_update())
        self._switches = True
        try:
            mounted = super().switch_mode(mode)
        except BaseException:
            held.close()
            raise
        finally:
            self._switches = False
        if not self.screen.call_later(held.close):
            held.close()
        return mounted

    def delay_update(self, delay: float = 0.05) -> None:
        """Delay painting, except in `switch_mode`, which batches its updates and needs no delay."""
        if not self._switches:
            super().delay_update(delay)

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """Screens visible through the top one.

        Textual assumes every screen is transparent, and would repaint whatever an opaque screen covers on
        each message.
        """
        opaque = self.screen.styles.background.a == 1
        return [] if opaque else super()._background_screens

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Send only the cells of an update that differ from what the terminal shows."""
        driver, update = self.driver, cast("Any", renderable)
        if isinstance(driver, PatientDriver) and hasattr(update, "render_segments"):
            cells, strips = driver.shown_cells, strips_of(update)
            if strips is None or screen.outer_size != self._painted:
                cells.forget()
                self._painted = screen.outer_size
            if strips is not None:
                update.render_segments = lambda console: cells.sequence(strips, console)
        super()._display(screen, renderable)

    def clear_selection(self) -> None:
        """Clear the selection of the top screen, if there is one.

        Since Python 3.12 Textual runs tasks eagerly, and an input in the first screen calls this before the
        screen is up.
        """
        with contextlib.suppress(ScreenStackError):
            super().clear_selection()

    def _handle_exception(self, error: Exception) -> None:
        """Ignore missing widgets during exit: a screen removed while it mounts cannot find its parts."""
        if self.return_code is None or not isinstance(error, NoMatches):
            super()._handle_exception(error)

    async def _replace_screen(self, screen: Screen[Any]) -> Screen[Any]:
        """Wait until a screen has mounted before removing it.

        Textual ends the program when a second key closes a screen that is still mounting and looks for its
        parts.
        """
        if (mounted := getattr(screen, "_mounted_event", None)) is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(mounted.wait(), BEGIN_S)
        parts = list(screen.walk_children(Widget, with_self=True))
        replaced = await super()._replace_screen(screen)
        if not screen.is_running:
            # Textual keeps the last thousand caches of painted lines, even of closed screens: about 50 MB.
            for part in parts:
                if (cache := getattr(part, "_styles_cache", None)) is not None:
                    cache.clear()
            self.let_go(screen)
        return replaced

    def let_go(self, screen: Screen[Any]) -> None:
        """Drop references to a closed screen. Called after it is closed."""


def strips_of(update: Any) -> Iterator[tuple[int, int, Strip]] | None:
    """Return the strips of a compositor's update as (x, y, strip); None when it is of an unknown kind."""
    try:
        if hasattr(update, "chops"):
            return _chops_of(update.chops, update.spans, update.chop_ends)
        return _lines_of(update.region, update.strips)
    except AttributeError:
        return None


def _chops_of(chops: Any, spans: Any, ends: Any) -> Iterator[tuple[int, int, Strip]]:
    """Yield the parts of lines that overlap with what changed."""
    for y, first, last in spans:
        for end, (x, strip) in zip(ends[y], chops[y].items(), strict=False):
            if strip is not None and x < last and end > first:
                yield x, y, strip


def _lines_of(region: Region, lines: Any) -> Iterator[tuple[int, int, Strip]]:
    for y, line in enumerate(lines, region.y):
        x = region.x
        for strip in line:
            yield x, y, strip
            x += strip.cell_length


class KeepsStyles(MessagePump):
    """Screen mixin, listed before `Screen`: keeps styles and layout until what they depend on changes.

    Textual recomputes all of them whenever a screen comes to the top.
    """

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """No repaint: Textual would paint the whole screen, but widgets repaint themselves on focus and blur."""
    _styled_by: tuple[Any, ...] | None = None

    @on(Mount)
    def _was_styled(self) -> None:
        self._styled_by = self._ground()

    @on(ScreenResume)
    def _keep_styles(self, event: ScreenResume) -> None:
        """Restyle only after the theme or the state of the terminal has changed."""
        ground = self._ground()
        if ground == self._styled_by:
            event.refresh_styles = False
        self._styled_by = ground

    def set_state(self, states: Mapping[str, bool], parts: str) -> None:
        """Set classes of the screen, and restyle only the parts that a style with such a class selects.

        `parts` must select all of them. Textual would restyle every part of the screen.
        """
        screen = cast("Screen[Any]", self)
        if any(screen.has_class(name) != on for name, on in states.items()):
            screen.update_classes(states, update=False)
            for part in screen.query(parts):
                screen.app.stylesheet.apply(part)

    def _screen_resized(self, size: Size) -> None:
        """Lay out again only if the size changed. Other reasons for layout wait for the next paint."""
        laid_out = getattr(getattr(self, "_compositor", None), "size", None)
        if laid_out != size:
            super()._screen_resized(size)  # type: ignore[misc]

    def _ground(self) -> tuple[Any, ...]:
        app = cast("Screen[Any]", self).app
        return app.theme, app.classes, frozenset(app.pseudo_classes)


@lru_cache(maxsize=4096)
def tinted(style: Style, tint: Color) -> Style:
    """Return a style blended with the tint, without its click action."""
    return next(iter(BackgroundScreen.process_segments([Segment("", style)], tint))).style or Style()


class Tint(BackgroundScreen):
    """The screen below in dimmed colors. Each style is blended once instead of for every segment."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        for text, style, control in segments:
            yield Segment(text, style if control else tinted(style or Style(), color), control)


class LeftOnce(KeepsStyles):
    """Screen mixin: dismissing it a second time does nothing. Textual would close the screen below.

    Two clicks or two results of a search can reach a screen before the first has closed it.
    """

    def render(self) -> RenderableType:
        """Render the screen below as Textual does, but faster."""
        made: RenderableType = super().render()  # type: ignore[misc]
        return Tint(made.screen, made.color) if type(made) is BackgroundScreen else made

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close with a result, unless the screen is already closed or not on top."""
        if not cast("Screen[Any]", self).is_active:
            return AwaitComplete.nothing()
        return cast("AwaitComplete", super().dismiss(result))  # type: ignore[misc]


class PatientPalette(LeftOnce, CommandPalette):
    """Textual's command palette, robust against events while it opens or closes."""

    def _watch__list_visible(self) -> None:
        if self.query(CommandList):
            super()._watch__list_visible()

    def _action_command_list(self, action: str) -> None:
        with contextlib.suppress(KeyError):  # page down without room for a line
            super()._action_command_list(action)


SYNC_START, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
MOST_WAITING = 6
"""Writes that may be queued before frames are dropped: two frames with their synchronization sequences."""
LOOK_AGAIN_S = 0.1
LAST_WORDS_S = 1.0
"""How long exiting waits for a terminal that accepts no data."""


class PatientDriver(LinuxDriver):
    """Textual's driver for Unix terminals, which drops frames rather than wait.

    Textual's own blocks once thirty writes are queued. On a stalled connection neither keys nor signals are
    handled then, and if the terminal is gone this lasts forever. Here frames that a slow connection cannot
    take are dropped, and the newest is painted in full once it can.
    """

    def __init__(self, app: App[Any], **keywords: Any) -> None:
        super().__init__(app, **keywords)
        self._shows = app
        if (file := getattr(self, "_file", None)) is not None:
            self._file = LastingFile(file)  # type: ignore[assignment]
        self._leaves_out = self._in_frame = False
        self.shown_cells = ShownCells()

    def start_application_mode(self) -> None:
        """Enter full-screen mode, which begins with an empty screen."""
        self.shown_cells.forget()
        super().start_application_mode()

    def write(self, data: str) -> None:
        """Queue output. A frame is dropped while earlier ones wait."""
        if not data.isascii() and getattr(self._shows, "ascii_only", False):  # what Textual itself draws
            data = to_ascii(data)
        framed = self._in_frame or data == SYNC_START
        self._in_frame = framed and data != SYNC_END
        picture = framed or "\x1b[0m" in data
        begins = data == SYNC_START or (picture and not framed)
        if begins and not self._leaves_out and self._waiting() > MOST_WAITING:
            self._leaves_out = True
            self._look_again()
        if not (picture and self._leaves_out):
            self._put(merge_styles(data) if picture else data)

    def close(self) -> None:
        """Write the rest, with a time limit."""
        if self._line() is None:
            super().close()
        elif self._writer_thread is not None:
            self._put(None)
            self._writer_thread.join(LAST_WORDS_S)

    def _line(self) -> queue.Queue[str | None] | None:
        """Return the writer's queue; None if Textual has none or it has not started."""
        return getattr(getattr(self, "_writer_thread", None), "_queue", None)

    def _waiting(self) -> int:
        line = self._line()
        return 0 if line is None else line.qsize()

    def _put(self, data: str | None) -> None:
        if (line := self._line()) is not None:
            with contextlib.suppress(queue.Full):  # the guard process restores the terminal
                line.put_nowait(data)
        elif data is not None and getattr(self, "_writer_thread", self) is not None:
            super().write(data)

    def _look_again(self) -> None:
        """Paint the newest frame in full once the terminal has taken what was queued."""
        if self._waiting():
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._look_again)
            return
        self._leaves_out = False
        self.shown_cells.forget()
        self._shows.refresh()


RENDITION = re.compile(r"\x1b\[([0-9;]*)m")
MOVES = re.compile(r"(?:\x1b\[[0-9;]*H|\r|\n)*")
"""Sequences between two texts that show no color themselves."""
OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28", "9": "29",
       "21": "24", "53": "55"}  # fmt: skip
"""SGR parameter that ends each attribute."""
SEEN_ON_BLANKS = frozenset(("4", "7", "9", "21", "53"))
"""Attributes that are visible on spaces."""


class TextStyle(NamedTuple):
    """SGR parameters for foreground, background and other attributes. Empty means the terminal's default."""

    ink: str = ""
    ground: str = ""
    others: frozenset[str] = frozenset()


PLAIN = TextStyle()


def merge_styles(data: str) -> str:
    """Return the same picture in fewer bytes, with colors sent only where they change.

    Textual ends each piece of text with a reset and starts the next with its full style, about 45 bytes a
    piece. That is two thirds of what a live view sends.

    Args:
        data: Output that starts and ends at the terminal's default colors.

    Returns:
        `data` unchanged if it contains a sequence this module cannot merge.
    """
    pieces = RENDITION.split(data)
    out = [pieces[0]]
    now = wanted = PLAIN
    for index in range(1, len(pieces), 2):
        look = read_look(wanted, pieces[index])
        if look is None:
            return data
        wanted, text = look, pieces[index + 1]
        if not text:
            continue
        if MOVES.fullmatch(text):
            out.append(text)
            continue
        target = wanted
        if text.isspace() and not (now.others | wanted.others) & SEEN_ON_BLANKS:
            target = TextStyle(now.ink, wanted.ground, now.others)
        out += (change(now, target), text)
        now = target
    out.append(change(now, wanted))
    return "".join(out)


@lru_cache(maxsize=2048)
def read_look(before: TextStyle, parameters: str) -> TextStyle | None:
    """Return the style after an SGR sequence; None when it has an unknown parameter."""
    ink, ground, others = before
    words = parameters.split(";")
    at = 0
    while at < len(words):
        word = words[at].lstrip("0")
        taken = 1
        if not word:
            ink, ground, others = PLAIN
        elif word in ("38", "48"):
            taken = {"2": 5, "5": 3}.get("".join(words[at + 1 : at + 2]), 0)
            if not taken or at + taken > len(words):
                return None
            color = ";".join(words[at : at + taken])
            ink, ground = (color, ground) if word == "38" else (ink, color)
        elif word in OFF:
            others |= {word}
        elif len(word) == 2 and word[0] in "39" and word[1] in "01234567":
            ink = word
        elif (len(word) == 2 and word[0] == "4") or (len(word) == 3 and word[:2] == "10"):
            if word[-1] not in "01234567":
                return None
            ground = word
        else:
            return None
        at += taken
    return TextStyle(ink, ground, others)


@lru_cache(maxsize=2048)
def change(now: TextStyle, wanted: TextStyle) -> str:
    """Return the shortest sequence that changes one style into another."""
    if now == wanted:
        return ""
    if wanted == PLAIN:
        return "\x1b[0m"
    whole = ["0", *sorted(wanted.others), wanted.ink, wanted.ground]
    ended = {OFF[word] for word in now.others - wanted.others}
    kept = {word for word in wanted.others if word not in now.others or OFF[word] in ended}
    parts = [*sorted(ended), *sorted(kept)]
    if now.ink != wanted.ink:
        parts.append(wanted.ink or "39")
    if now.ground != wanted.ground:
        parts.append(wanted.ground or "49")
    return min(("\x1b[" + ";".join(filter(None, words)) + "m" for words in (parts, whole)), key=len)


ONE_CELL_EACH = re.compile("[ -~\u00b7\u2013-\u2026\u2190-\u22ff\u2500-\u259f\u25b2-\u25d0\u2800-\u28ff]*")
"""Characters one cell wide that never combine with a neighbor: ASCII, and what this program draws."""
APART = 8
"""Runs of changed cells closer than this are sent as one: moving the cursor costs about as many bytes."""


class ShownCells:
    """The cells that the terminal shows, so that an update sends only those that differ.

    Textual sends each changed line from the left edge of its widget, and everything when a dialog closes.
    """

    def __init__(self) -> None:
        self._rows: dict[int, list[Any]] = {}

    def forget(self) -> None:
        """Send every cell again: the terminal may show something else."""
        self._rows.clear()

    def sequence(self, strips: Iterable[tuple[int, int, Strip]], console: Console) -> str:
        """Return what brings the terminal up to date with strips, each given as (x, y, strip)."""
        return "".join(
            f"\x1b[{y + 1};{at + 1}H{part.render(console)}"
            for x, y, strip in strips
            for at, part in self._changes(x, y, strip)
        )

    def _changes(self, x: int, y: int, strip: Strip) -> Iterator[tuple[int, Strip]]:
        """Yield the parts of a strip that differ from what is shown, each with its first column."""
        width = strip.cell_length
        row = self._rows.setdefault(y, [])
        row.extend(repeat(None, x + width - len(row)))
        before = row[x : x + width]
        if ONE_CELL_EACH.fullmatch(strip.text) is None:
            # Terminals disagree about the width of other characters, so such a strip is sent whole.
            whole = [tuple(strip), *repeat("", width - 1)]
            if before != whole:
                row[x : x + width] = whole
                del row[x + width :]  # the terminal may have moved what follows
                yield x, strip
            return
        cells = [cell for text, style, _ in strip for cell in zip(text, repeat(style), strict=False)]
        if cells == before:
            return
        row[x : x + width] = cells
        start = end = -1
        for at, (one, other) in enumerate(zip(before, cells, strict=True)):
            if one == other:
                continue
            if start < 0:
                start = at
            elif at - end > APART:
                yield x + start, strip.crop(start, end)
                start = at
            end = at + 1
        yield x + start, strip.crop(start, end)


class LastingFile:
    """The terminal as a file. Once the terminal is gone, writes do nothing and the process gets SIGHUP.

    Bypasses the buffer of Python's own file. Its lock would be held while a stalled terminal accepts no data,
    and flushing standard error at exit would then block forever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file, self._gone = file, False

    def write(self, text: str) -> None:
        if not self._gone:
            left = text.encode(self._file.encoding, errors="backslashreplace")
            try:
                while left:
                    left = left[os.write(self._file.fileno(), left) :]
            except OSError:
                self._hang_up()

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def _hang_up(self) -> None:
        self._gone = True
        os.kill(os.getpid(), signal.SIGHUP)
