import { ApprovalQueue, MayNotDecide } from '../../../src/agent/approvals/service.ts';
import type { ApproverRule } from '../../../src/config/registry/registry-config.ts';
import { noTrail } from '../../../src/server/audit/sms-trail.ts';
import { Caller } from '../../../src/server/identity/caller.ts';
import { personOf, personOfNew } from '../../../src/server/identity/named-tokens.ts';
import { approvalKind, type BoundCall, boundCallFields } from '../../../src/server/records/approval.ts';
import { createMemoryStoreOf } from '../../../src/server/store/local-store.ts';
import { Random } from '../random.ts';

const HOUR_MS = 3_600_000;

interface Token {
  readonly created_by: string;
  /** Absent: a token of an earlier version. */
  readonly person?: string;
}

/** Users, and tokens that they made for themselves, some with tokens in between. */
class Population {
  readonly tokens = new Map<string, Token>();
  /** The user behind each name, written down apart from the code under test. */
  readonly owners = new Map<string, string>();

  constructor(random: Random) {
    const users = 2 + random.below(3);
    for (let user = 0; user < users; user++) {
      const isOidc = random.chance(3);
      const name = isOidc ? `oidc:user-${user}` : `user-${user}`;
      if (!isOidc) this.tokens.set(name, { created_by: 'bootstrap-admin' });
      this.owners.set(name, name);
      const own = [name];
      for (let more = random.below(4); more > 0; more--) {
        const token = `${name.replace(':', '-')}-t${more}`;
        const created_by = random.pick(own);
        const person = personOfNew(token, created_by, (other) => this.tokens.get(other));
        this.tokens.set(token, random.chance(4) ? { created_by } : { created_by, person });
        this.owners.set(token, name);
        own.push(token);
      }
    }
  }

  readonly personOf = (name: string) => (this.canVote(name) ? personOf(name, (other) => this.tokens.get(other)) : null);

  /** A revoked token lets its holder do nothing. */
  canVote(name: string): boolean {
    return name.startsWith('oidc:') || this.tokens.has(name);
  }

  /** Removes a token whose descendants know their person. */
  revoke(random: Random): void {
    const name = random.pick([...this.owners.keys()]);
    const hasOld = [...this.tokens.values()].some((token) => token.created_by === name && token.person === undefined);
    if (!hasOld && this.owners.get(name) !== name) this.tokens.delete(name);
  }
}

const call: BoundCall = {
  ...{ run: 'run-1', ordinal: '1', task: 'payer', session: 'chat-1', server_id: 'bank', kind: 'tool' },
  ...{ tool_name: 'pay', definition_sha256: 'd'.repeat(64), policy: '1:p', purpose: 'call' },
};

/**
 * A request with a submitter, and random users who allow it under all their names. Returns what is wrong, null if nothing
 * is: the call is sent exactly if as many persons allowed it as the rule needs, none of them the submitter.
 */
export async function voteCase(seed: number): Promise<string | null> {
  const random = new Random(seed);
  const people = new Population(random);
  const names = [...people.owners.keys()];
  const submitter = random.pick(names);
  const [needed, allowSelf] = [1 + random.below(3), random.chance(4)];
  const every = ['*'];
  const all = { name: 'all', namespaces: every, servers: every, tools: every, approvers: null };
  const rule: ApproverRule = { ...all, needed, allowSelf };
  const queue = new ApprovalQueue(createMemoryStoreOf(approvalKind), {
    ...{ rules: [rule], hasNames: true, personOf: people.personOf, trail: noTrail },
    ...{ waitMs: HOUR_MS, grantMs: HOUR_MS, keptGrantMs: HOUR_MS, keepMs: HOUR_MS, maxKept: 100, maxWaiting: 100 },
    metrics: { decisions: { add: () => {} } } as never,
  });
  await queue.start();
  const by = (actor: string): Caller => ({
    ...{ actor, role: 'approver', namespace: '*', peer: null, via: 'http', method: 'none' },
  });
  const observer = Caller.process('torture');
  const about = `${needed} votes, submitted by ${submitter}, allow_self ${allowSelf} (case ${seed})`;
  try {
    const asked = { ...call, submitted_by: submitter, namespace: 'default', callId: 'c', nodeId: 'n', isKept: false };
    const cause = { code: 'always', text: '' } as const;
    const opened = await queue.open(by('node-1'), { ...asked, arguments: {}, definition: {}, cause });
    const { approval_id: id, arguments_sha256: hash } = opened;
    const allowed = new Set<string>();
    for (let tries = 3 + random.below(12); tries > 0; tries--) {
      const name = random.pick(names.filter((other) => people.canVote(other)));
      if ((await queue.get(observer, id)).status !== 'waiting') break;
      const owner = people.owners.get(name) ?? name;
      const mayVote = !allowed.has(owner) && (allowSelf || owner !== people.owners.get(submitter));
      const took = await queue.decide(by(name), id, { decision: 'allow_once', reason: null }).then(
        () => true,
        (error: unknown) => {
          if (error instanceof MayNotDecide) return false;
          throw error;
        },
      );
      if (took !== mayVote) return `${about}: the vote of ${name} was ${took ? 'counted' : 'refused'}`;
      if (took) allowed.add(owner);
      if (random.chance(3)) people.revoke(random);
    }
    const { status } = await queue.get(observer, id);
    if ((status === 'granted') !== allowed.size >= needed)
      return `${about}: ${allowed.size} persons, and it is ${status}`;
    if (status !== 'granted') return null;
    const bound = Object.fromEntries(boundCallFields.map((field) => [field, call[field]])) as unknown as BoundCall;
    // Rules that are read again before the call is sent no longer let the submitter's own vote count.
    const isStricter = random.chance(2);
    if (isStricter) queue.useRules([{ ...rule, allowSelf: false }]);
    const isSelf = allowed.has(people.owners.get(submitter) ?? '');
    const foreign = random.chance(3);
    const other = foreign ? `${submitter}-x` : submitter;
    const refusal = await queue.redeem(observer, id, '0'.repeat(32), { ...bound, submitted_by: other }, hash);
    const expected = foreign || (isStricter && isSelf) ? 'submitted_by' : null;
    return refusal === expected ? null : `${about}: redeemed as ${other}, it is ${refusal ?? 'sent'}`;
  } finally {
    queue.close();
  }
}
