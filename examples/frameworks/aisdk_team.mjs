// A team on Vercel's AI SDK: an agent looks the thing up, then a judge decides. Not a line is changed.
//
// npm install ai @ai-sdk/openai zod
// folkmoot evaluate "cmd:node aisdk_team.mjs" --data questions.csv --lm openai/gpt-4o-mini

import { readFileSync } from "node:fs";
import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const question = JSON.parse(readFileSync(0, "utf8"));
const options = Object.entries(question.choices ?? {}).map(([label, text]) => `${label}. ${text}`);
const text = [question.question, ...options].join("\n");

const lookUp = tool({
  description: "Looks a thing up.",
  inputSchema: z.object({ input: z.string() }),
  execute: async ({ input }) => `Nothing is known about ${input}.`,
});

const careful = await generateText({
  model: openai("gpt-4o-mini"),
  system: "Look it up, think step by step, then answer.",
  prompt: text,
  tools: { lookUp },
  stopWhen: stepCountIs(5),
});
const judge = await generateText({
  model: openai("gpt-4o-mini"),
  system: "Reply with the answer alone.",
  prompt: `${text}\n\nAn opinion:\n${careful.text}`,
});
console.log(JSON.stringify({ answer: judge.text }));
