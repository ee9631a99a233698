import { parentPort } from 'node:worker_threads';
import type { JsonObject, JsonValue } from '../../../../base/json.ts';
import { SchemaCompiler, type Validator } from './compile.ts';
import type { SchemaRequest, SchemaResponse } from './schema-thread.ts';

// Entry of the schema thread: compiles and runs schemas that are too expensive for the main thread, which terminates
// this thread if it takes too long.
if (!parentPort) throw new Error('the schema thread was not started as a worker');
const port = parentPort;

/** Cache of compiled schemas; the least recently used one is evicted. */
const MAX_CACHED = 256;
const cache = new Map<string, Validator | Error>();
const loading = SchemaCompiler.load();
loading.then(() => port.postMessage('ready'));

port.on('message', async ({ key, schema, named, subject, value }: SchemaRequest) => {
  const validator = compiled(await loading, key, schema, named, subject);
  const response: SchemaResponse =
    validator instanceof Error
      ? { kind: 'unusable', why: validator.message }
      : {
          kind: 'checked',
          problem: value === null ? null : validator.problem(JSON.parse(value) as JsonValue),
          unused: validator.unused,
        };
  port.postMessage(response);
});

function compiled(
  compiler: SchemaCompiler,
  key: string,
  schema: string,
  named: boolean,
  subject: string,
): Validator | Error {
  const known = cache.get(key) ?? compile();
  cache.delete(key);
  cache.set(key, known);
  if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value as string);
  return known;

  function compile(): Validator | Error {
    try {
      return compiler.compile(JSON.parse(schema) as JsonObject, named, subject);
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }
}
