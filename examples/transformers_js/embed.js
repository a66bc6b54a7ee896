// Texts, one per line, as vectors of a folder that `fairspan export` wrote, in JSON:
//
//     npm install --ignore-scripts    (the scripts would only fetch CUDA libraries)
//     node embed.js FOLDER < texts.txt > vectors.jsonl

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { AutoModel, AutoTokenizer } from "@huggingface/transformers";

// An absolute path: a plain name would mean a model of the Hub.
const folder = resolve(process.argv[2]);
const { prompts } = JSON.parse(await readFile(join(folder, "fairspan.json"), "utf8"));
const tokenizer = await AutoTokenizer.from_pretrained(folder, { local_files_only: true });
const model = await AutoModel.from_pretrained(folder, { local_files_only: true, dtype: "fp32" });

for await (const text of createInterface({ input: process.stdin })) {
  const tokens = tokenizer([prompts.document + text], { padding: true, truncation: true });
  const { sentence_embedding } = await model(tokens);
  console.log(JSON.stringify(sentence_embedding.tolist()[0]));
}
