import { ApprovalGate, type GateScope } from '../../../src/agent/approvals/gate.ts';
import { ApprovalRefused } from '../../../src/agent/approvals/request.ts';
import { parseApprovalRules } from '../../../src/agent/policy/approval-rules-parse.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import { Random } from '../random.ts';
import type { DeciderKind } from './deciders.ts';
import { reordered } from './random-json.ts';
import { argumentMutations, mutations, randomSituation, type Situation } from './situation.ts';

const never = new AbortController().signal;

/** A gate whose run and task can be others when the call is sent than when it was allowed. */
class MovableGate {
  now: Situation;
  readonly gate: ApprovalGate;

  constructor(situation: Situation, kind: DeciderKind) {
    this.now = situation;
    const about = () => this.now;
    const scope: GateScope = {
      get run() {
        return about().run;
      },
      get task() {
        return about().task;
      },
      registry: { snapshot: () => null, view: () => null },
      audit: { write: () => {}, showArguments: () => null },
      pool: {
        describeCall: async (_, { args }) => ({
          tool: { ...about().definition, title: null, outputSchema: null },
          args,
        }),
      },
    };
    const client = kind.client?.() ?? null;
    this.gate = new ApprovalGate({ decide: kind.decide(), client, rules: kind.rules }, scope);
  }

  obtain(): Promise<number | null> {
    const { record, call, args } = this.now;
    return this.gate.obtain(record, call, args, never);
  }

  /** Null: it would be sent. */
  async send(situation: Situation, grant: number | null): Promise<string | null> {
    this.now = situation;
    const { record, call, args, definition } = situation;
    try {
      await this.gate.claim(record, call, args, definition, grant);
      this.gate.redeem(record, call, args, definition, grant);
      return null;
    } catch (error) {
      if (error instanceof ApprovalRefused) return error.denial;
      throw error;
    }
  }
}

/**
 * One approval and one change between decision and send; and the same again unchanged. Returns what is wrong, null if
 * nothing is.
 */
export async function changedCase(kind: DeciderKind, change: string, seed: number): Promise<string | null> {
  const random = new Random(seed);
  const situation = randomSituation(random, kind.mode);
  const mutate = mutations[change] ?? argumentMutations[change];
  if (!mutate) throw new Error(`there is no change "${change}"`);
  const about = `${kind.name}, ${change} (case ${seed})`;

  const changed = new MovableGate(situation, kind);
  const isFree = kind.forSession && change in argumentMutations;
  const refused = await changed.send(mutate(situation, random), await changed.obtain());
  if (isFree !== (refused === null)) return `${about}: ${refused === null ? 'was sent' : `refused, ${refused}`}`;
  if (!isFree && refused !== 'approval_outdated') return `${about}: refused as ${refused}, not approval_outdated`;

  const same = new MovableGate(situation, kind);
  const grant = await same.obtain();
  const args = reordered(situation.args) as JsonObject;
  if ((await same.send({ ...situation, args }, grant)) !== null) return `${about}: refused without a change`;
  const again = await same.send(situation, grant);
  if (kind.forSession !== (again === null)) return `${about}: the second use of the grant was ${again ?? 'sent'}`;
  return null;
}

/** The grant of one call brought by another, and grants that were never given. */
export async function foreignGrantCase(kind: DeciderKind, seed: number): Promise<string | null> {
  const random = new Random(seed);
  const [own, other] = [randomSituation(random, kind.mode), randomSituation(random, kind.mode)];
  const about = `${kind.name}, the grant of another call (case ${seed})`;
  const movable = new MovableGate(own, kind);
  const grant = await movable.obtain();
  // Another tool: a grant for the session holds for the same tool with any arguments.
  const foreign = { ...other, call: { ...other.call, tool: `${own.call.tool}_too` } };
  for (const brought of [grant, null, 0, -1, (grant ?? 1) + 1, Number.NaN]) {
    if ((await movable.send(foreign, brought)) === null) return `${about}: sent with ${brought}`;
  }
  if (kind.forSession) return null;
  // Whoever tried it with the wrong call has used it up.
  return (await movable.send(own, grant)) === null ? `${about}: was good for its own call afterwards` : null;
}

const anySafe = { arguments: [{ path: '/path', inside: '/safe' }], tools: ['*'], verdict: 'allow' };
const unsafe: readonly JsonObject[string][] = [
  '/etc/passwd',
  '/safe/../etc',
  '/safe2/note',
  '',
  'x/safe/note',
  ['/safe/note', '/etc'],
  { '/safe/note': 1 },
  null,
  7,
];

/** A rule lets it through, and what it let through is another when it is sent. */
export async function ruleCase(seed: number): Promise<string | null> {
  const random = new Random(seed);
  const parsed = parseApprovalRules([anySafe, { tools: ['*'], verdict: random.pick(['deny', 'ask']) }]);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
  const kind: DeciderKind = {
    name: 'a rule',
    mode: 'policy',
    forSession: false,
    rules: { node: parsed.rules, task: [] },
    decide: () => () => 'deny',
  };
  const situation = { ...randomSituation(random, 'policy'), args: { path: '/safe/note' } };
  const movable = new MovableGate(situation, kind);
  const grant = await movable.obtain();
  const path = random.pick(unsafe);
  const about = `a rule (case ${seed})`;
  if ((await movable.send({ ...situation, args: { path } }, grant)) === null)
    return `${about}: sent with ${JSON.stringify(path)}`;
  return (await movable.send(situation, grant)) === null ? null : `${about}: refused without a change`;
}
