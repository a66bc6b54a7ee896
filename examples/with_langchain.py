"""A saved model in LangChain. docs/serve.md says more.

    pip install fairspan langchain-huggingface
    python with_langchain.py FOLDER

`fairspan calibrate MODEL FOLDER` writes the folder, as does `save_pretrained`.
"""

import sys

from langchain_huggingface import HuggingFaceEmbeddings


def embed(folder: str, texts: list[str]) -> list[list[float]]:
    embeddings = HuggingFaceEmbeddings(
        model_name=folder,
        model_kwargs={"trust_remote_code": True},
        encode_kwargs={"prompt_name": "document"},
        query_encode_kwargs={"task": "query", "prompt_name": "query"},
    )
    return embeddings.embed_documents(texts)


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
