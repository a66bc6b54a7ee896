"""`Run`: one study while it runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.chunks import innermost
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill, reads_to_end
from fairspan.encoding.store import Store
from fairspan.errors import FairspanError
from fairspan.runs.bases import Pair, Treated
from fairspan.runs.forecast import plan_sending
from fairspan.runs.header import Header
from fairspan.runs.log import LogWriter
from fairspan.runs.prepared import Prepared
from fairspan.runs.progress import Progress
from fairspan.runs.subject import Subject


@dataclass(frozen=True)
class Run:
    """Where the texts of a study are embedded, `budget` tokens in a batch, and its rows go."""

    prepared: Prepared
    writer: LogWriter
    store: Store
    budget: int
    tally: Tally
    progress: Progress

    @property
    def subject(self) -> Subject:
        return self.prepared.subject

    @property
    def header(self) -> Header:
        return self.writer.header

    @property
    def label(self) -> dict[str, str]:
        """The columns that all rows of the run share."""
        return {"run": self.header.run, "model": self.subject.name}

    def add(self, rows: pl.DataFrame) -> None:
        self.writer.add(rows)

    def note(self, text: str) -> None:
        """Add a note to the log, once."""
        if text not in self.header.notes:
            self.header.notes.append(text)

    def under(self, treatment: Treatment) -> Treated:
        return self.subject.under(treatment, fit=self.prepared.fit, embed=self.embed)

    def embed(self, encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
        """[texts, dimension], their vectors, from the store or computed."""
        self.fill(encoder, texts)
        return np.stack(self.read([encoder.key(text) for text in texts]))

    def fill(self, encoder: Encoder, texts: Sequence[Text]) -> None:
        advance = self.progress.advance
        fill(encoder, texts, self.store, budget=self.budget, tally=self.tally, progress=advance)

    def read(self, keys: Sequence[bytes]) -> list[np.ndarray]:
        vectors = self.store.get(keys)
        return [vectors[key] for key in keys]

    def announce(self, pairs: Iterable[Pair]) -> None:
        """Say what is going to be sent to an endpoint, if the model is one."""
        model = self.subject.model
        if isinstance(model, Endpoint):
            sending = plan_sending(model, pairs, self.store, budget=self.budget, tally=self.tally)
            self.writer.header = replace(self.header, sending=sending)
            self.progress.stage(sending.words)

    def prove_whole(
        self, encoder: Encoder, texts: Sequence[Text], *, may_cut: bool = False
    ) -> None:
        """Raise if the longest of the texts that fit the model's window is not read to the end.

        For an endpoint that `may_cut` texts it is noted instead, and its answer is kept.
        """
        encoder, texts = innermost(encoder, texts)
        window = encoder.window
        fitting = (text for text in texts if window is None or text.length <= window)
        longest = max(fitting, key=lambda text: text.length, default=None)
        remote = isinstance(self.subject.model, Endpoint)
        if longest is None or (not remote and not self.store.missing([encoder.key(longest)])):
            return
        if reads_to_end(encoder, longest, self.tally, self.store if remote else None):
            return
        if not (remote and may_cut):
            raise FairspanError(
                f"the model does not read its longest document ({len(longest.text)} characters) to "
                "the end: the vector stays the same without the last words. Raise the limit of the "
                "model or its tokenizer, or use shorter documents."
            )
        self.note(
            f"the endpoint does not read the longest document ({len(longest.text):,} characters) "
            "to the end: vectors of such documents cover only their beginning"
        )

    def note_answers(self) -> None:
        """Write what became known of an endpoint while it was measured."""
        model = self.subject.model
        if not isinstance(model, Endpoint):
            return
        self.writer.header = replace(self.header, model=self.subject.info)
        names = model.received.models
        if len(names) > 1:
            self.note(f"the answers of the endpoint name several models: {', '.join(names)}")
