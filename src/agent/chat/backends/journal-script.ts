import { canonicalJson, isJsonObject, type JsonObject, parseJson } from '../../../base/json.ts';
import type {
  LastMessage,
  ModelRequestRecord,
  ModelResponseRecord,
  TimedRecord,
} from '../../../runtime/durable/journal.ts';
import { callsOf, type ModelCall, messageOf } from '../../../server/timeline/record-fields.ts';
import { messageText } from '../backend.ts';
import type { Script, ScriptMatchers, ScriptReply, ScriptTurn } from './script-schema.ts';

/** Model request of a run and its answer; null: no answer. */
export interface RecordedTurn {
  readonly asked: ModelRequestRecord;
  readonly answered: ModelResponseRecord | null;
}

const roles: ReadonlySet<string> = new Set(['system', 'developer', 'user', 'assistant', 'tool']);
// Journals of earlier versions say "answered".
const saidStatus = /(?:answered|responded) with status ([45]\d\d)(?:: )?/;
const statusOfCode = new Map([
  ['unauthorized', 401],
  ['forbidden', 403],
  ['not_found', 404],
  ['timeout', 408],
  ['request_too_large', 413],
  ['rate_limited', 429],
]);

/** Converts the answers of a recorded run to a script, in the order of the requests. Requests without answer are omitted. */
export function scriptOf(records: readonly TimedRecord[]): Script {
  const turns = turnsOf(records);
  const model = turns.map(({ asked }) => asked.model).find((name) => typeof name === 'string' && name !== '');
  const played = turns.flatMap(({ asked, answered }) =>
    answered === null ? [] : [scriptTurn(asked, answered, callsBefore(turns, asked))],
  );
  return typeof model === 'string' ? { model, turns: played } : { turns: played };
}

/** A request that a later attempt repeated counts once, at its first position. */
export function turnsOf(records: readonly TimedRecord[]): RecordedTurn[] {
  const turns = new Map<string, RecordedTurn>();
  for (const record of records) {
    if (record.t === 'model.asked') turns.set(`${record.call}.${record.n}`, { asked: record, answered: null });
    if (record.t !== 'model.answered') continue;
    const known = turns.get(`${record.call}.${record.n}`);
    if (known !== undefined) turns.set(`${record.call}.${record.n}`, { ...known, answered: record });
  }
  return [...turns.values()];
}

function scriptTurn(
  asked: ModelRequestRecord,
  { body, error }: ModelResponseRecord,
  before: readonly ModelCall[],
): ScriptTurn {
  const when = matchers(asked.last, before);
  const answer = error === undefined ? { reply: replyOf(body ?? {}) } : { error: errorOf(error) };
  return when === null ? answer : { when, ...answer };
}

/** Matchers without message contents, because tool results differ between runs. */
function matchers(last: LastMessage | undefined, before: readonly ModelCall[]): ScriptMatchers | null {
  const id = last?.tool_call_id ?? (last === undefined ? before.at(-1)?.id : undefined);
  if (id !== undefined && id !== '') return { role: 'tool', tool_call_id: id };
  return last !== undefined && roles.has(last.role) ? { role: last.role as 'user' } : null;
}

/** Tool calls of the previous turn of the same send. */
function callsBefore(turns: readonly RecordedTurn[], { call, n }: ModelRequestRecord): ModelCall[] {
  const before = turns.find(({ asked }) => asked.call === call && asked.n === n - 1);
  return callsOf(messageOf(before?.answered?.body));
}

function replyOf(body: JsonObject): ScriptReply {
  const message = messageOf(body);
  const content = messageText(message);
  const calls = callsOf(message);
  const usage = usageOf(body);
  return {
    ...(content === '' && calls.length > 0 ? {} : { content }),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(scriptCall) }),
    ...(usage === null ? {} : { usage }),
  };
}

function scriptCall({ id, name, args }: ModelCall) {
  const value = parseJson(args);
  // An object reads better; it is written as the same text where its keys were in order.
  return { id, name, arguments: isJsonObject(value) && canonicalJson(value) === args ? value : args };
}

function usageOf({ usage }: JsonObject): ScriptReply['usage'] | null {
  if (!isJsonObject(usage)) return null;
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  const counts = [prompt_tokens, completion_tokens, total_tokens];
  // Without any a script says as much.
  if (counts.every((count) => count === 0)) return null;
  if (!counts.every((count) => Number.isSafeInteger(count) && Number(count) >= 0)) return null;
  return {
    prompt_tokens: Number(prompt_tokens),
    completion_tokens: Number(completion_tokens),
    total_tokens: Number(total_tokens),
  };
}

/** Nearest HTTP status for a failure; a script expresses failures as a status. */
function errorOf({
  code,
  message,
  retryable,
}: NonNullable<ModelResponseRecord['error']>): NonNullable<ScriptTurn['error']> {
  const said = saidStatus.exec(message);
  const status = said === null ? (statusOfCode.get(code) ?? (retryable ? 503 : 400)) : Number(said[1]);
  return { status, message: said === null ? message : message.slice(said.index + said[0].length) };
}
