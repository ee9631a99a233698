import type { InjectedTools, InjectionRequest } from '../../agent/chat/injected-tools.ts';
import type { GuestToolCall } from '../../agent/mcp/guest-mcp.ts';
import type { TakeAnswer } from '../../agent/mcp/tool-calls.ts';
import { noRules } from '../../agent/policy/approval-rules.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../base/json.ts';
import type { McpOfRun, RunMcp, RunningMcp } from '../../run/run-mcp.ts';
import type { ErrnoName } from '../../runtime/abi/errno.ts';
import type { StandardStream } from '../../runtime/port/guest-spec.ts';
import type { TaskPolicy } from '../../runtime/port/policy-layers.ts';
import type { Outcome } from './outcome.ts';
import { canonical, type RecordedCall, type RecordedHistory } from './recorded-history.ts';
import type { ReplayedModel } from './replayed-model.ts';
import { aroundDifference } from './request-difference.ts';

/** MCP that answers recorded calls from a journal: each recorded result is returned once, to a call with equal arguments. */
export class ReplayedMcp implements RunMcp, RunningMcp {
  readonly taskName: string | null;
  readonly task: TaskPolicy;
  readonly approvalRules = noRules;
  readonly revision = null;
  readonly underway = 0;
  readonly degraded = [];
  readonly #history: RecordedHistory;
  readonly #model: ReplayedModel;
  readonly #outcome: Outcome;
  readonly #asked = new Map<string, number>();

  constructor(history: RecordedHistory, model: ReplayedModel, outcome: Outcome) {
    const { policy, task } = history.run.header;
    this.taskName = task;
    this.task = policy;
    this.#history = history;
    this.#model = model;
    this.#outcome = outcome;
  }

  forRun(): McpOfRun {
    return { guest: this, close: () => {} };
  }

  async requireServers(): Promise<null> {
    return null;
  }

  async inject(request: InjectionRequest): Promise<InjectedTools> {
    return this.#model.inject(request);
  }

  start({ kind = 'tool', serverId, tool, arguments: given }: GuestToolCall, take: TakeAnswer): { cancel(): void } {
    const args = canonical(given);
    const isSame = (call: RecordedCall) =>
      call.kind === kind && call.server === serverId && call.tool === tool && call.args === args;
    const found = this.#history.calls.find((call) => !call.isTaken && isSame(call));
    const next = this.#history.calls.find(({ isTaken }) => !isTaken);
    const result = found === undefined ? null : this.#history.result(found.ordinal);
    if (found !== undefined) found.isTaken = true;
    if (result !== null) take(result);
    else if (found !== undefined || (next === undefined && this.#history.end === null)) this.#outcome.ends();
    else {
      const recorded = next === undefined ? 'no more calls' : callText(next.server, next.tool, next.args);
      const now = callText(serverId, tool, args);
      this.#outcome.differs({ kind: 'call', where: 'MCP calls of the guest', recorded, now });
    }
    return { cancel: () => {} };
  }

  open(serverId: string): ErrnoName | null {
    const answer = this.#ask(['mcp_open', serverId]);
    return typeof answer === 'string' ? answer : null;
  }

  async listTools(serverId: string): Promise<JsonObject | ErrnoName> {
    return this.#ask(['mcp_list', serverId]);
  }

  async listResources(serverId: string): Promise<JsonObject | ErrnoName> {
    return this.#ask(['mcp_list_resources', serverId]);
  }

  async listPrompts(serverId: string): Promise<JsonObject | ErrnoName> {
    return this.#ask(['mcp_list_prompts', serverId]);
  }

  registryList(): JsonObject | ErrnoName {
    return this.#ask(['mcp_registry', null]);
  }

  registryGet(serverId: string): JsonObject | ErrnoName {
    return this.#ask(['mcp_registry', serverId]);
  }

  /** Further queries repeat the last recorded response. */
  #ask(question: readonly [string, string | null]): JsonObject | ErrnoName {
    const answers = this.#history.answers(question);
    const key = JSON.stringify(question);
    const times = this.#asked.get(key) ?? 0;
    this.#asked.set(key, times + 1);
    const [, errno, body] = answers[Math.min(times, answers.length - 1)] ?? [];
    if (answers.length === 0) {
      if (this.#history.end === null) this.#outcome.ends();
      const now = `${question[0]} ${question[1] ?? ''}`.trim();
      this.#outcome.differs({ kind: 'question', where: 'registry queries', recorded: 'no such query', now });
      return 'EIO' as ErrnoName;
    }
    if (typeof errno === 'string') return errno as ErrnoName;
    const parsed = typeof body === 'string' ? parseJson(body) : undefined;
    return isJsonObject(parsed) ? parsed : {};
  }
}

const callText = (server: string, tool: string, args: string) => `${tool} of ${server} with ${args}`;

const streams: readonly StandardStream[] = ['stdout', 'stderr'];

/** Compares the output of a changed guest with the recorded output while it is written. */
export class ComparedOutput {
  readonly #history: RecordedHistory;
  readonly #outcome: Outcome;
  readonly #printed: Record<StandardStream, number> = { stdout: 0, stderr: 0 };

  constructor(history: RecordedHistory, outcome: Outcome) {
    this.#history = history;
    this.#outcome = outcome;
  }

  take(stream: StandardStream, bytes: Uint8Array): void {
    const at = this.#printed[stream];
    this.#printed[stream] = at + bytes.byteLength;
    const recorded = this.#history.output[stream].subarray(at, at + bytes.byteLength);
    if (recorded.equals(bytes.subarray(0, recorded.byteLength))) {
      if (recorded.byteLength === bytes.byteLength) return;
      if (this.#history.end === null) this.#outcome.ends();
    }
    // Show the rest of the line: it is what a user compares.
    const rest = this.#history.output[stream].subarray(at);
    this.#differs(stream, at, rest, bytes);
  }

  /** The guest has ended. */
  finish(): void {
    for (const stream of streams) {
      const at = this.#printed[stream];
      const rest = this.#history.output[stream].subarray(at);
      if (rest.byteLength > 0) this.#differs(stream, at, rest, new Uint8Array());
    }
  }

  #differs(stream: StandardStream, at: number, recorded: Uint8Array, now: Uint8Array): void {
    const [before, after] = [Buffer.from(recorded).toString(), Buffer.from(now).toString()];
    const [one, other] = aroundDifference(before, after);
    const texts = { recorded: one === '' ? 'nothing more' : one, now: other === '' ? 'nothing more' : other };
    this.#outcome.differs({ kind: 'output', where: `${stream}, from byte ${at}`, ...texts });
  }
}
