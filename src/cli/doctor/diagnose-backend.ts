import { BackendError, type ChatBackend } from '../../agent/chat/backend.ts';
import { isJsonObject, type JsonObject } from '../../base/json.ts';
import type { CompiledBackend } from '../../config/host/host-config.ts';
import { bad, type Finding, ok, skipped } from './finding.ts';

const TOOL_NAME = 'spear_doctor_ping';

/** One tool, one sentence: the smallest request that shows whether a model calls tools. */
const question = {
  messages: [{ role: 'user', content: `Call the tool ${TOOL_NAME} once, with {"ok": true}.` }],
  tools: [
    {
      type: 'function',
      function: {
        name: TOOL_NAME,
        description: 'Shows that tools can be called.',
        parameters: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] },
      },
    },
  ],
  tool_choice: { type: 'function', function: { name: TOOL_NAME } },
};

export interface BackendQuestion {
  readonly compiled: CompiledBackend;
  /** Opens the backend as a run would. */
  readonly open: () => Promise<ChatBackend>;
  /** False: nothing is sent to a model. */
  readonly ask: boolean;
  readonly signal: AbortSignal;
}

/** Checks the backend and its model with one request. Scripts and stubs are named but get no request. */
export async function diagnoseBackend({ compiled, open, ask, signal }: BackendQuestion): Promise<Finding[]> {
  const notAsked = (why: string) => skipped('model', `model: ${why}`);
  if (compiled.kind === 'stub') {
    const fix = 'set OPENAI_API_KEY and OPENAI_MODEL (and OPENAI_BASE_URL), or write a host config: spear-run --help';
    const text = `backend "${compiled.name}" is a built-in stub: no model is configured`;
    return [skipped('backend', text, { cause: 'stub', fix }), notAsked('a stub calls no tools')];
  }
  let backend: ChatBackend;
  try {
    backend = await open();
  } catch (error) {
    return [
      bad('backend', messageOf(error), { cause: codeOf(error), fix: 'correct the host config' }),
      notAsked('not reached'),
    ];
  }
  if (compiled.kind === 'scripted') {
    return [ok('backend', `backend "${compiled.name}" is a script, not a model`), notAsked('a script needs no check')];
  }
  const where = `backend "${compiled.name}" at ${new URL(compiled.baseUrl).host}`;
  if (!ask) return [skipped('backend', `${where}: not checked`), notAsked('not checked')];
  const startedAt = performance.now();
  try {
    const model = backend.model === undefined ? {} : { model: backend.model };
    const body = await backend.complete({ ...model, ...question }, signal);
    const took = `${Math.round(performance.now() - startedAt)} ms`;
    return [ok('backend', `${where} responds in ${took}`), diagnoseAnswer(body, backend.model)];
  } catch (error) {
    return failed(error, where, signal.aborted);
  }
}

function diagnoseAnswer(body: JsonObject, model: string | undefined): Finding {
  const name = `model "${model ?? String(body.model ?? '')}"`;
  const choice = Array.isArray(body.choices) ? body.choices[0] : undefined;
  const message = isJsonObject(choice) && isJsonObject(choice.message) ? choice.message : {};
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls : [];
  const called = calls.some(
    (call) => isJsonObject(call) && isJsonObject(call.function) && call.function.name === TOOL_NAME,
  );
  if (called) return ok('model', `${name} calls tools`);
  const fix = 'choose a model that can call tools; some model servers must be started with tool calling enabled';
  return bad('model', `${name} was given one tool and instructed to call it, but answered without a tool call`, {
    cause: 'no_tool_calls',
    fix,
  });
}

/** With an HTTP status the server is reachable: the problem is the model, the key or the request. */
function failed(error: unknown, where: string, timedOut: boolean): Finding[] {
  const status = error instanceof BackendError ? error.status : undefined;
  const text = timedOut ? `${where} did not respond in time` : messageOf(error);
  if (status === undefined) {
    const fix = 'check base_url of the backend (or OPENAI_BASE_URL), the network and the proxy variables';
    return [
      bad('backend', text, { cause: timedOut ? 'timeout' : codeOf(error), fix }),
      skipped('model', 'model: not reached'),
    ];
  }
  return [ok('backend', `${where} answers`), bad('model', text, { cause: codeOf(error), fix: statusFix(status) })];
}

function statusFix(status: number): string {
  if (status === 401 || status === 403) return 'check the api_key of the backend (or OPENAI_API_KEY)';
  if (status === 404)
    return 'check the model of the backend (or OPENAI_MODEL), and that base_url ends where the API begins (often /v1)';
  if (status === 400 || status === 422) return 'the model may not support tools: choose a model that does';
  return status === 429 ? 'the account has reached its rate limit: wait, or raise the limit' : 'contact the provider';
}

const codeOf = (error: unknown) => (error instanceof BackendError ? error.code : 'failed');
const messageOf = (error: unknown) => (error instanceof Error ? error.message : 'the backend failed');
