import { setImmediate } from 'node:timers/promises';
import type { ApprovalDecision, ApprovalRequest } from '../../../src/agent/approvals/request.ts';
import type { CallHandle, PoolCall } from '../../../src/agent/mcp/client/server-call.ts';
import { convertError, type ToolOutput } from '../../../src/agent/mcp/client/tool-result.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import { ToolEvents } from '../../../src/agent/mcp/tool-events.ts';
import { canonicalJson, type JsonObject } from '../../../src/base/json.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { Random } from '../random.ts';
import { mutations, randomSituation, type Situation } from './situation.ts';

/** Where a change comes between the decision and the send. */
export const moments = ['while it is asked', 'in the queue', 'when it is announced'] as const;
export type Moment = (typeof moments)[number];

/** What a guest cannot change itself: the definition is its server's, the record is the registry's. */
const outside = Object.keys(mutations).filter((name) => /^the (definition|record)/.test(name));

/** A guest with a fake pool and registry, both of which can change at a chosen moment. */
class ChangingHost {
  now: Situation;
  readonly sent: JsonObject[] = [];
  readonly asked: ApprovalRequest[] = [];
  readonly guest: GuestMcp;
  #change: (() => void) | null;
  readonly #moment: Moment;
  readonly #listeners = new Set<() => void>();

  constructor(
    now: Situation,
    moment: Moment,
    change: ((before: Situation) => Situation) | null,
    answers: ApprovalDecision[],
  ) {
    this.now = now;
    this.#moment = moment;
    this.#change = change && (() => this.#become(change(this.now)));
    const startCall = (_: McpServerRecord, call: PoolCall) => this.#startCall(call);
    const definition = () => ({ ...this.now.definition, title: null, outputSchema: null });
    const list = () => ({
      serverId: now.call.serverId,
      version: 1,
      tools: [definition()],
      dropped: [],
      notice: null,
      instructions: null,
    });
    const servers = () => new Map([[this.now.call.serverId, this.now.record]]);
    this.guest = new GuestMcp(
      {
        pool: {
          startCall,
          describeCall: async (_, { args }) => ({ tool: definition(), args }),
          listTools: async () => list(),
          listResources: async () => ({ resources: [], templates: [], ttlMs: null }),
          listPrompts: async () => ({ prompts: [], ttlMs: null }),
        },
        registry: {
          view: () => ({ servers: servers(), stale: false, profiles: null }),
          snapshot: () => ({ epoch: '', revision: this.now.record.mod_revision, records: servers() }),
          onPolicyChange: (listener) => {
            this.#listeners.add(listener);
            return () => this.#listeners.delete(listener);
          },
        },
        audit: { write: () => {}, showArguments: () => null, written: async () => true },
        events: new ToolEvents(),
      },
      now.run,
      now.task,
      {
        decide: async (request) => {
          this.asked.push(request);
          this.#reach('while it is asked');
          await setImmediate();
          return answers.shift() ?? 'deny';
        },
      },
    );
  }

  async call(): Promise<JsonObject> {
    const { call, args } = this.now;
    const { serverId, tool, callId, session } = call;
    const signal = new AbortController().signal;
    return JSON.parse(
      await this.guest.call({ serverId, tool, callId, session, arguments: JSON.stringify(args) }, signal),
    );
  }

  #become(situation: Situation): void {
    this.now = situation;
    for (const tell of this.#listeners) tell();
  }

  #reach(moment: Moment): void {
    if (moment !== this.#moment) return;
    this.#change?.();
    this.#change = null;
  }

  /** The pool's part: a place, an announcement, the last question, the send. */
  #startCall(call: PoolCall): CallHandle {
    const cancelled = new AbortController();
    void this.#runCall(call, cancelled.signal).then((output) => call.finished(output));
    return { cancel: (error) => cancelled.abort(error) };
  }

  async #runCall(call: PoolCall, signal: AbortSignal): Promise<ToolOutput> {
    try {
      await setImmediate();
      this.#reach('in the queue');
      signal.throwIfAborted();
      await call.announce?.({ ...this.now.definition, title: null, outputSchema: null }, call.args);
      this.#reach('when it is announced');
      signal.throwIfAborted();
      call.beforeDispatch?.({ ...this.now.definition, title: null, outputSchema: null }, call.args);
      this.sent.push(call.args);
      return { json: '{"content":[]}', error: null };
    } catch (error) {
      return convertError(error, Number.MAX_SAFE_INTEGER);
    }
  }
}

/** One call of a guest whose server or record changes on its way. Returns what is wrong, null if nothing is. */
export async function guestCase(
  moment: Moment,
  decision: 'allow_once' | 'allow_session',
  seed: number,
): Promise<string | null> {
  const random = new Random(seed);
  const situation = randomSituation(random, 'always');
  const name = random.pick(outside);
  const mutate = mutations[name];
  const about = `a guest, ${decision}, ${name} changed ${moment} (case ${seed})`;

  const changing = new ChangingHost(situation, moment, mutate ? (before) => mutate(before, random) : null, [decision]);
  const answer = await changing.call();
  if (changing.sent.length > 0) return `${about}: was sent`;
  if (answer.error === undefined) return `${about}: answered without an error`;

  const same = new ChangingHost(situation, moment, null, [decision]);
  if ((await same.call()).error !== undefined) return `${about}: refused without a change`;
  const [request] = same.asked;
  const [sent] = same.sent;
  if (same.sent.length !== 1 || !request || !sent) return `${about}: unchanged, it was sent ${same.sent.length} times`;
  const [shown, done] = [request.arguments, sent].map(canonicalJson);
  if (shown !== done) return `${about}: ${done} was sent where ${shown} was shown`;

  const second = await same.call();
  const expected = decision === 'allow_session' ? undefined : 'mcp_approval_denied';
  const code = (second.error as JsonObject | undefined)?.code;
  return code === expected ? null : `${about}: its second call was ${String(code ?? 'sent')}`;
}
