import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { untilAborted } from '../../../base/abort.ts';
import { errorCode, errorText } from '../../../base/errors.ts';
import { canonicalJson, isJsonObject, type JsonObject } from '../../../base/json.ts';
import { ignoreWaits, type Waiting, whileWaiting } from '../../../base/listeners.ts';
import { cutText } from '../../../base/text.ts';
import type { ReadTextFile } from '../../../config/config-file.ts';
import type { ModelRequestRecord, ModelResponseRecord, TimedRecord } from '../../../runtime/durable/journal.ts';
import {
  type AnswerDeltas,
  type AskedBy,
  answerOf,
  BackendError,
  type ChatBackend,
  type ChatRequest,
  messageText,
} from '../backend.ts';
import { BackendFailures } from './failures.ts';
import { turnsOf } from './journal-script.ts';
import type { Script, ScriptMatchers, ScriptReply, ScriptTurn } from './script-schema.ts';

/*
 * Backend that plays a script of turns, for tests, demos and replays of journals. Shared by all sessions of a process; a turn
 * answers once, unless it repeats. Deterministic: deltas and their order depend only on the script and the requests.
 */

const MAX_SHOWN_CHARACTERS = 200;
const MAX_TURNS_SHOWN = 10;
/** Length to which journals cut messages; longer messages cannot be compared. */
const MAX_RECORDED_CHARACTERS = 4_096;

/** Reads and checks a script. */
export async function openScriptedBackend(
  name: string,
  file: string,
  readFile: ReadTextFile,
  waiting: Waiting = ignoreWaits,
): Promise<ChatBackend> {
  return playScript(name, file, parseScript(file, readFile), waiting);
}

/** Checks a parsed script; `file` names it in messages. */
export async function playScript(
  name: string,
  file: string,
  script: unknown,
  waiting: Waiting = ignoreWaits,
): Promise<ChatBackend> {
  const { checkScript } = await import('./script-schema.ts');
  const checked = checkScript(file, script);
  if ('complaint' in checked) throw badScript(checked.complaint);
  return new ScriptedBackend(name, basename(file), checked.document, waiting);
}

/** Backend that plays a script. The first unused turn with matching conditions answers. */
class ScriptedBackend implements ChatBackend {
  readonly name: string;
  readonly model: string;
  readonly #file: string;
  readonly #turns: readonly ScriptTurn[];
  readonly #used = new Set<ScriptTurn>();
  readonly #failures: BackendFailures;
  readonly #closed = new AbortController();
  readonly #waiting: Waiting;
  #answers = 0;

  constructor(name: string, file: string, script: Script, waiting: Waiting) {
    this.name = name;
    this.model = script.model ?? 'scripted';
    this.#file = file;
    this.#turns = script.turns;
    this.#failures = new BackendFailures(name);
    this.#waiting = waiting;
  }

  async complete(request: ChatRequest, signal: AbortSignal, by?: AskedBy): Promise<JsonObject> {
    signal.throwIfAborted();
    this.#closed.signal.throwIfAborted();
    const turn = this.#turns.find((candidate) => !this.#used.has(candidate) && holds(candidate.when, request));
    if (turn === undefined) throw this.#unmatched(request);
    if (turn.repeat !== true) this.#used.add(turn);
    const number = ++this.#answers;
    if (turn.delay_ms !== undefined) await this.#wait(turn.delay_ms, signal);
    if (turn.error !== undefined) throw this.#failures.refused(turn.error.status, turn.error.message);
    if (by?.deltas !== undefined) await tellWords(turn.reply?.content ?? '', by.deltas, signal);
    return completion(`scripted-${number}`, this.model, turn.reply ?? {});
  }

  /**
   * Marks the turns as used that answered the run before its interruption. The journal does not name them: each answer
   * belongs to the first unused turn with the same answer whose conditions match the recorded part of the request. In
   * the process that gave the answers the turns are marked already.
   */
  continueAfter(records: readonly TimedRecord[]): void {
    if (this.#answers > 0) return;
    for (const { asked, answered } of turnsOf(records)) {
      if (answered === null || asked.backend !== this.name) continue;
      this.#answers += 1;
      const isOf = (turn: ScriptTurn) =>
        !this.#used.has(turn) && mayHold(turn.when, asked) && this.#gives(turn, answered);
      const turn = this.#turns.find(isOf);
      if (turn !== undefined && turn.repeat !== true) this.#used.add(turn);
    }
  }

  #gives(turn: ScriptTurn, { body, error }: ModelResponseRecord): boolean {
    if (turn.error !== undefined) {
      return error?.message === this.#failures.refused(turn.error.status, turn.error.message).message;
    }
    if (body === undefined) return false;
    return canonicalJson(completion(String(body.id), this.model, turn.reply ?? {})) === canonicalJson(body);
  }

  async close(): Promise<void> {
    this.#closed.abort(this.#failures.closed());
  }

  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    const either = AbortSignal.any([signal, this.#closed.signal]);
    try {
      const answer = { what: answerOf(this.name, this.model), atMostMs: null };
      await whileWaiting(this.#waiting, answer, delay(ms, undefined, { signal: either }));
    } catch {
      either.throwIfAborted();
    }
  }

  #unmatched(request: ChatRequest): BackendError {
    const last = request.messages.at(-1);
    const id = typeof last?.tool_call_id === 'string' ? ` tool_call_id ${last.tool_call_id}` : '';
    const text = JSON.stringify(cutText(messageText(last), MAX_SHOWN_CHARACTERS));
    const unused = this.#turns.flatMap((turn, index) => (this.#used.has(turn) ? [] : [describeTurn(turn, index)]));
    const shown = unused.slice(0, MAX_TURNS_SHOWN);
    if (unused.length > shown.length) shown.push(`and ${unused.length - shown.length} more`);
    return new BackendError(
      'script_unmatched',
      `script ${this.#file}: no unused turn matches; received: message ${request.messages.length}, ` +
        `role ${String(last?.role)}${id}, content ${text}, tools offered: ${offeredTools(request).join(', ') || 'none'}; ` +
        `unused turns: ${shown.join('; ') || 'none'}`,
      { retryable: false },
    );
  }
}

/** Splits a text into words with their separators: the same deltas on every run. */
async function tellWords(text: string, deltas: AnswerDeltas, signal: AbortSignal): Promise<void> {
  for (const [word] of text.matchAll(/^\s+|\S+\s*/g)) {
    const room = deltas.room();
    if (room !== null) await untilAborted(room, signal);
    deltas.text(word);
  }
}

function parseScript(file: string, readFile: ReadTextFile): unknown {
  let text: string;
  try {
    text = readFile(file);
  } catch (error) {
    const code = errorCode(error) ?? String(error);
    throw badScript(`${file}: the script cannot be read (${code})`);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw badScript(`${file}: not valid JSON: ${errorText(error)}`);
  }
}

function badScript(complaint: string): BackendError {
  return new BackendError('bad_script', complaint, { retryable: false });
}

function holds(when: ScriptMatchers | undefined, request: ChatRequest): boolean {
  if (when === undefined) return true;
  const last = request.messages.at(-1);
  if (when.role !== undefined && last?.role !== when.role) return false;
  if (when.tool_call_id !== undefined && last?.tool_call_id !== when.tool_call_id) return false;
  if (when.messages !== undefined && request.messages.length !== when.messages) return false;
  if (when.no_tools === true && request.tools !== undefined) return false;
  if (when.content !== undefined && !contentHolds(when.content, messageText(last))) return false;
  const offered = offeredTools(request);
  return when.tools === undefined || when.tools.every((tool) => offered.includes(tool));
}

/** Whether the conditions may have matched a recorded request. */
function mayHold(when: ScriptMatchers | undefined, { last, messages }: ModelRequestRecord): boolean {
  if (when === undefined) return true;
  const { role, tool_call_id: id, text } = last ?? {};
  if (when.role !== undefined && role !== undefined && when.role !== role) return false;
  if (when.tool_call_id !== undefined && last !== undefined && when.tool_call_id !== id) return false;
  if (when.messages !== undefined && messages !== undefined && when.messages !== messages) return false;
  if (when.content === undefined || text === undefined || text.length >= MAX_RECORDED_CHARACTERS) return true;
  return contentHolds(when.content, text);
}

function contentHolds(matcher: NonNullable<ScriptMatchers['content']>, text: string): boolean {
  if (typeof matcher === 'string') return text === matcher;
  return 'contains' in matcher ? text.includes(matcher.contains) : new RegExp(matcher.matches, 'u').test(text);
}

function offeredTools(request: ChatRequest): string[] {
  if (!Array.isArray(request.tools)) return [];
  return request.tools.flatMap((tool) => {
    const name = isJsonObject(tool) && isJsonObject(tool.function) ? tool.function.name : undefined;
    return typeof name === 'string' ? [name] : [];
  });
}

function describeTurn(turn: ScriptTurn, index: number): string {
  const matchers = turn.when === undefined ? 'anything' : cutText(JSON.stringify(turn.when), MAX_SHOWN_CHARACTERS);
  return `turns[${index}] when ${matchers}`;
}

function completion(id: string, model: string, reply: ScriptReply): JsonObject {
  const message: JsonObject = { content: reply.content ?? null, role: 'assistant' };
  if (reply.tool_calls !== undefined) {
    message.tool_calls = reply.tool_calls.map((call) => ({
      function: {
        arguments: typeof call.arguments === 'string' ? call.arguments : canonicalJson(call.arguments),
        name: call.name,
      },
      id: call.id,
      type: 'function',
    }));
  }
  return {
    choices: [{ finish_reason: reply.tool_calls === undefined ? 'stop' : 'tool_calls', index: 0, message }],
    created: 0,
    id,
    model,
    object: 'chat.completion',
    usage: reply.usage ?? { completion_tokens: 0, prompt_tokens: 0, total_tokens: 0 },
  };
}
