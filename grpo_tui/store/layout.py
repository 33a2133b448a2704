"""Names of everything in a run folder, so that each is spelled in one place.

Knows paths only, not what the files hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run; `root` is TRL's `output_dir`."""

    root: Path

    @property
    def database(self) -> Path:
        """The SQLite file that holds everything recorded."""
        return self.root / "run.db"

    @property
    def spec(self) -> Path:
        """What to run: the resolved config and the start options, as JSON."""
        return self.root / "run.json"

    @property
    def identity(self) -> Path:
        """A random id, by which the user who started the run knows it again."""
        return self.root / "run.id"

    @property
    def earlier_spec(self) -> Path:
        """`run.json` as it was before a resume, until the resumed run has ended."""
        return self.root / "run.json.before"

    @property
    def lock(self) -> Path:
        """Held with `flock` by the supervisor and the training process together."""
        return self.root / "run.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the one supervisor of the run."""
        return self.root / "supervisor.lock"

    @property
    def heartbeat(self) -> Path:
        """Touched by the supervisor once a second; holds who watches whom."""
        return self.root / "heartbeat"

    @property
    def hardware(self) -> Path:
        """How the machine is, replaced by the supervisor every two seconds; gone after the end."""
        return self.root / "hardware.json"

    @property
    def log(self) -> Path:
        """All output of the training process."""
        return self.root / "train.log"

    @property
    def commands(self) -> Path:
        """Mailbox of commands and outcomes."""
        return self.root / "commands"

    @property
    def spool(self) -> Path:
        """Records of ranks other than the first, on their way into the database."""
        return self.root / "spool"

    def abort(self, rank: int) -> Path:
        """The id of the reward call on a rank that shall be aborted, written before the signal goes out."""
        return self.root / f"rank-{rank}.abort"

    def rank(self, rank: int) -> Path:
        """What one rank is doing now."""
        return self.root / f"rank-{rank}.json"

    def error(self, rank: int) -> Path:
        """Why a rank other than the first failed."""
        return self.root / f"rank-{rank}.error"

    def ranks(self) -> list[int]:
        """Ranks that have said something, in order."""
        named = (p.stem.removeprefix("rank-") for p in self.root.glob("rank-*.json"))
        return sorted(int(number) for number in named if number.isdecimal())

    def exists(self) -> bool:
        """True when the folder holds a run."""
        return self.database.exists() or self.spec.exists()

    def checkpoints(self) -> list[Path]:
        """Checkpoint folders by step, oldest first; a link to a folder is not one."""
        named = [p for p in self.root.glob("checkpoint-*") if p.name.split("-")[-1].isdecimal()]
        found = [p for p in named if p.is_dir() and not p.is_symlink()]
        return sorted(found, key=lambda path: int(path.name.split("-")[-1]))
