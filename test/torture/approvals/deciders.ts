import type { ApprovalClient } from '../../../src/agent/approvals/client.ts';
import type { ApprovalDecider } from '../../../src/agent/approvals/request.ts';
import type { ApprovalRules } from '../../../src/agent/policy/approval-rules.ts';
import { parseApprovalRules } from '../../../src/agent/policy/approval-rules-parse.ts';
import { createPromptDecider } from '../../../src/cli/run/approval-prompt.ts';
import { registryThat } from './registry-decider.ts';

/** One way in which a call gets its approval. */
export interface DeciderKind {
  readonly name: string;
  /** What the record says of the tool. */
  readonly mode: 'always' | 'policy';
  /** Whether an answer is good for the whole session, whatever the arguments. */
  readonly forSession: boolean;
  readonly rules: ApprovalRules;
  /** A new one each time: a decider may remember. */
  decide(): ApprovalDecider;
  /** Decides instead, elsewhere. */
  client?(): ApprovalClient;
}

const none: ApprovalRules = { node: [], task: [] };

function rulesOf(...given: object[]): ApprovalRules {
  const parsed = parseApprovalRules(given);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
  return { node: parsed.rules, task: [] };
}

/** A fake terminal in front of which somebody presses one key as soon as it is asked for. */
function promptThat(presses: string): ApprovalDecider {
  return createPromptDecider({
    interrupt: () => {},
    open: () => {
      let press = (_keys: string) => {};
      return {
        columns: 80,
        write: (text) => {
          if (text.includes('allow it?')) setImmediate(() => press(presses));
        },
        takeKeys: (onKeys) => {
          press = onKeys;
          return () => {
            press = () => {};
          };
        },
        close: () => {},
      };
    },
  });
}

const later = () => new Promise<void>((resolve) => setImmediate(resolve));
const kind = (name: string, decide: () => ApprovalDecider, more: Partial<DeciderKind> = {}): DeciderKind => ({
  name,
  mode: 'always',
  forSession: false,
  rules: none,
  decide,
  ...more,
});

export const deciderKinds: readonly DeciderKind[] = [
  kind('a program, at once', () => () => 'allow_once'),
  kind('a program, later, with a reason', () => async () => {
    await later();
    return { decision: 'allow_once', reason: 'looks right' };
  }),
  kind('a program, for the session', () => () => Promise.resolve('allow_session'), { forSession: true }),
  kind('a program where no rule matches', () => () => 'allow_once', {
    mode: 'policy',
    rules: rulesOf({ tools: ['nothing'], verdict: 'allow' }),
  }),
  kind('a program where a rule asks', () => () => 'allow_session', {
    mode: 'policy',
    forSession: true,
    rules: rulesOf({ tools: ['*'], verdict: 'ask' }),
  }),
  kind('a person, once', () => promptThat('y')),
  kind('a person, for the session', () => promptThat('s'), { forSession: true }),
  kind('the people of a registry, once', () => () => 'deny', { client: () => registryThat('allow_once') }),
  kind('the people of a registry, for the session', () => () => 'deny', {
    forSession: true,
    client: () => registryThat('allow_session'),
  }),
];
