"""`Run`: a study while it runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import Encoder
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import reads_to_end
from fairspan.encoding.text import Text
from fairspan.errors import FairspanError
from fairspan.runs.embedder import Embedder, Pair
from fairspan.runs.header import Header
from fairspan.runs.levelling import find_common
from fairspan.runs.sending import refuse_changed, sending_of, sending_words, wanted_of
from fairspan.runs.subject import Subject
from fairspan.runs.treated import Treated
from fairspan.runs.writer import LogWriter


@dataclass(frozen=True)
class Run(Embedder):
    """A study while it runs: embeds its texts, and knows its log."""

    subject: Subject
    writer: LogWriter

    @property
    def header(self) -> Header:
        return self.writer.header

    def note(self, text: str) -> None:
        """Add a note to the log, once."""
        self.writer.note(text)

    def under(self, treatment: Treatment) -> Treated:
        common = find_common(self.subject, treatment, self.embed)
        return self.subject.under(treatment, common=common)

    def announce(self, pairs: Iterable[Pair]) -> None:
        """Say what is going to be sent to an endpoint, if the model is one."""
        if isinstance(self.subject.model, Endpoint):
            wanted = wanted_of(pairs)
            sending = sending_of(wanted, self.store)
            if sending.texts:
                refuse_changed(wanted, self.store)
            self.writer.change(sending=sending)
            self.progress.note(sending_words(sending))

    def prove_whole(
        self, encoder: Encoder, texts: Sequence[Text], *, may_cut: bool = False
    ) -> None:
        """Raise if the longest of the texts that fit the model's window is not read to the end.

        For an endpoint that `may_cut` texts it is noted instead, and its answer is kept.
        """
        window = encoder.window
        pieces = chain.from_iterable(encoder.pieces(texts))
        fitting = (text for text in pieces if window is None or text.length <= window)
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
        self.writer.change(model=self.subject.info)
        names = model.received.models
        if len(names) > 1:
            self.note(f"the answers of the endpoint name several models: {', '.join(names)}")
