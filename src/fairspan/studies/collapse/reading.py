"""What a study of length reads from disk, without a model."""

from fairspan.corpus.corpus import Corpus
from fairspan.errors import CorpusError
from fairspan.studies.collapse.spec import CollapseSpec


def read_corpus(spec: CollapseSpec) -> tuple[Corpus, str]:
    """The corpus in one language, and that language."""
    try:
        corpus = Corpus.read(spec.corpus, None if spec.language is None else [spec.language], partial=True)
    except CorpusError as error:
        raise CorpusError(str(error.args[0]).replace("[[languages=en,]]", "[[language=en]]")) from None
    language = spec.language or ("en" if "en" in corpus.languages else corpus.languages[0])
    return corpus.select([language]), language
