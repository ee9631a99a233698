import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import { countIn, type ModelCall, textIn, textOrNull } from './record-fields.ts';
import type { Draft, TimelineDraft } from './timeline-draft.ts';
import type { ApprovalEntry, EntryStatus, ErrorShown, ToolEntry } from './timeline-entry.ts';

/** What the model of a send wanted last, and of all that it ever wanted what was not seen to happen, with its time. */
interface LastTurn {
  readonly calls: readonly ModelCall[];
  readonly unclaimed: Map<ModelCall, number>;
}

const deniedCodes: ReadonlySet<string> = new Set(['mcp_policy_denied', 'mcp_approval_denied']);
const UNKNOWN_CODE = 'mcp_outcome_unknown';

/** The tool calls of a timeline, and the approvals of them. */
export class TimelineCalls {
  readonly #draft: TimelineDraft;
  readonly #openSend: (call: number) => void;
  readonly #turns = new Map<number, LastTurn>();
  readonly #tools = new Map<string, Draft<ToolEntry>>();
  /** By ordinal, those of earlier attempts too: an unknown call ends in a later one. */
  readonly #known = new Map<string, Draft<ToolEntry>>();
  /** The callback of each send that runs. */
  readonly #callbacks = new Map<number, Draft<ToolEntry>>();
  /** Callbacks without a result, by their send and the model's id. */
  readonly #unanswered = new Map<string, Draft<ToolEntry>>();
  /** By the id of their call. */
  readonly #approvals = new Map<string, Draft<ApprovalEntry>>();

  constructor(draft: TimelineDraft, openSend: (call: number) => void) {
    this.#draft = draft;
    this.#openSend = openSend;
  }

  wanted(send: number, calls: readonly ModelCall[]): void {
    const unclaimed = this.#turns.get(send)?.unclaimed ?? new Map<ModelCall, number>();
    for (const call of calls) unclaimed.set(call, this.#draft.ms);
    this.#turns.set(send, { calls, unclaimed });
  }

  /** Whether the guest made this call of a tool itself. */
  isTool(call: number): boolean {
    return this.#known.has(String(call));
  }

  /** Nothing that is open goes on: the process was another. */
  forget(): void {
    this.#tools.clear();
    this.#callbacks.clear();
  }

  started(record: JsonObject): void {
    const ordinal = textIn(record.ordinal);
    const entry = this.#tool('mcp', this.#sendOf(ordinal), {
      ordinal,
      attempt: countIn(record.attempt),
      server: textIn(record.server),
      tool: textIn(record.tool),
      args: this.#draft.show(textIn(record.args)),
      // Until its end is read: that it was sent is all that is known.
      status: 'unknown',
    });
    this.#claim(ordinal);
    this.#tools.set(ordinal, entry);
    this.#known.set(ordinal, entry);
  }

  finished(ordinal: string, result: string, code: string | null): void {
    const entry = this.#tools.get(ordinal) ?? this.#refused(ordinal);
    this.#tools.delete(ordinal);
    const { ms, show } = this.#draft;
    Object.assign(entry, { end_ms: ms, result: show(resultText(result)), code, status: statusOf(code) });
  }

  approval(event: JsonObject): void {
    const id = textIn(event.request_id);
    if (event.event === 'approval.asked') {
      this.#approvals.set(id, this.#newApproval(event, id, textOrNull(event.reason)));
      return;
    }
    if (event.event !== 'approval.decided') return;
    const known = this.#approvals.get(id);
    // A rule decides without being asked.
    const entry = known?.status === 'open' ? known : this.#newApproval(event, id, null);
    this.#approvals.set(id, entry);
    const { ms, show } = this.#draft;
    Object.assign(entry, {
      end_ms: ms,
      status: event.status === 'allowed' ? 'ok' : 'denied',
      decision: textOrNull(event.decision),
      decided_by: textOrNull(event.decided_by),
      reason: typeof event.reason === 'string' ? show(event.reason).text : null,
    });
  }

  callback(send: number, args: string): void {
    this.#openSend(send);
    this.endCallback(send);
    const turn = this.#turns.get(send);
    const wanted = turn?.calls.find((one) => turn.unclaimed.has(one) && one.args === args);
    const shown = this.#draft.show(args);
    const entry = this.#tool('native', send, { tool: wanted?.name ?? null, args: shown });
    this.#callbacks.set(send, entry);
    if (wanted === undefined) return;
    turn?.unclaimed.delete(wanted);
    this.#unanswered.set(`${send} ${wanted.id}`, entry);
  }

  /** A callback ended when its send went on, at the latest. */
  endCallback(send: number): void {
    const entry = this.#callbacks.get(send);
    this.#callbacks.delete(send);
    if (entry !== undefined) Object.assign(entry, { end_ms: this.#draft.ms, status: 'ok' });
  }

  /** What a tool's result was, where no record of its own has it: callbacks, and calls that the host answered itself. */
  message(send: number, message: JsonObject): void {
    const id = textIn(message.tool_call_id);
    const content = textIn(message.content);
    const key = `${send} ${id}`;
    const entry = this.#unanswered.get(key) ?? this.#answeredByHost(send, id);
    this.#unanswered.delete(key);
    if (entry === null) return;
    const code = errorIn(content)?.code ?? null;
    Object.assign(entry, { result: this.#draft.show(content), code, status: statusOf(code) });
    entry.end_ms ??= this.#draft.ms;
  }

  /** When, nobody wrote down: soon after the model wanted it. */
  #answeredByHost(send: number, id: string): Draft<ToolEntry> | null {
    const { unclaimed } = this.#turns.get(send) ?? {};
    const [wanted, ms] = [...(unclaimed ?? [])].find(([call]) => call.id === id) ?? [];
    if (wanted === undefined || ms === undefined) return null;
    unclaimed?.delete(wanted);
    const args = this.#draft.show(wanted.args);
    return this.#tool('host', send, { tool: wanted.name, args, start_ms: ms, end_ms: ms });
  }

  /** A call that was never sent has an end alone: what it was about, others know. */
  #refused(ordinal: string): Draft<ToolEntry> {
    const wanted = this.#claim(ordinal);
    const asked = this.#approvals.get(wanted?.id ?? `call-${ordinal}`);
    const { server = null, tool = null, args = null } = this.#known.get(ordinal) ?? asked ?? {};
    return this.#tool('mcp', this.#sendOf(ordinal), {
      ordinal,
      server,
      tool: tool ?? wanted?.name ?? null,
      args: wanted === null ? args : this.#draft.show(wanted.args),
    });
  }

  #newApproval(event: JsonObject, id: string, cause: string | null): Draft<ApprovalEntry> {
    const { args } = event;
    const shown = typeof args === 'string' ? args : JSON.stringify(args ?? null);
    const send = [...this.#turns].find(([, { calls }]) => calls.some((call) => call.id === id))?.[0] ?? null;
    return this.#draft.add({
      kind: 'approval',
      ...this.#draft.since('open', send),
      server: textOrNull(event.server_id),
      tool: textOrNull(event.tool_name),
      args: args === undefined || args === null ? null : this.#draft.show(shown),
      cause,
      decision: null,
      decided_by: null,
      reason: null,
    });
  }

  /** Of the send, turn and place that an ordinal names; null: the guest made the call itself. */
  #sendOf(ordinal: string): number | null {
    const [send] = ordinal.split('.').map(Number);
    if (!ordinal.includes('.') || send === undefined || !Number.isSafeInteger(send)) return null;
    this.#openSend(send);
    return send;
  }

  /** What the model wanted by it. */
  #claim(ordinal: string): ModelCall | null {
    const [send = 0, , place = 0] = ordinal.split('.').map(Number);
    const turn = this.#turns.get(send);
    const wanted = turn?.calls[place - 1] ?? null;
    if (wanted !== null) turn?.unclaimed.delete(wanted);
    return wanted;
  }

  #tool(source: ToolEntry['source'], send: number | null, known: Partial<ToolEntry>): Draft<ToolEntry> {
    const nothing = { ordinal: null, attempt: null, server: null, tool: null, args: null, result: null, code: null };
    return this.#draft.add({ kind: 'tool', ...this.#draft.since('open', send), source, ...nothing, ...known });
  }
}

function statusOf(code: string | null): EntryStatus {
  if (code === null) return 'ok';
  if (code === UNKNOWN_CODE) return 'unknown';
  return deniedCodes.has(code) ? 'denied' : 'failed';
}

/** What people read of a result: its texts, where there is nothing else in it. */
function resultText(result: string): string {
  const value = parseJson(result);
  if (!isJsonObject(value) || !Array.isArray(value.content) || value.content.length === 0) return result;
  const others = Object.keys(value).filter((key) => key !== 'content' && key !== 'isError');
  const texts = value.content.flatMap((part) =>
    isJsonObject(part) && part.type === 'text' && typeof part.text === 'string' ? [part.text] : [],
  );
  return others.length === 0 && texts.length === value.content.length ? texts.join('\n') : result;
}

/** `{"error": {"code": …}}`, as bodies and results have it. */
export function errorIn(body: string): ErrorShown | null {
  const value = body.startsWith('{') ? parseJson(body) : undefined;
  if (!isJsonObject(value) || !isJsonObject(value.error)) return null;
  return { code: textIn(value.error.code), message: textIn(value.error.message) };
}
