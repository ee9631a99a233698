import { parentPort } from 'node:worker_threads';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import { SchemaCompiler, type Validator } from './compile.ts';
import type { SchemaAnswer, SchemaQuestion } from './schema-thread.ts';

// The thread that schemas too dear for the host are compiled and asked on. The host ends it when it takes too long.
if (!parentPort) throw new Error('the schema thread was not started as a worker');
const port = parentPort;

/** Compiled ones that are kept; the one used longest ago makes way. */
const MAX_KEPT = 256;
const kept = new Map<string, Validator | Error>();
const loading = SchemaCompiler.load();
loading.then(() => port.postMessage('ready'));

port.on('message', async ({ key, schema, named, subject, value }: SchemaQuestion) => {
  const validator = compiled(await loading, key, schema, named, subject);
  const answer: SchemaAnswer =
    validator instanceof Error
      ? { kind: 'unusable', why: validator.message }
      : {
          kind: 'checked',
          problem: value === null ? null : validator.problem(JSON.parse(value) as JsonValue),
          unused: validator.unused,
        };
  port.postMessage(answer);
});

function compiled(
  compiler: SchemaCompiler,
  key: string,
  schema: string,
  named: boolean,
  subject: string,
): Validator | Error {
  const known = kept.get(key) ?? compile();
  kept.delete(key);
  kept.set(key, known);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value as string);
  return known;

  function compile(): Validator | Error {
    try {
      return compiler.compile(JSON.parse(schema) as JsonObject, named, subject);
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }
}
