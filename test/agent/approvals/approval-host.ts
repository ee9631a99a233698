import { onTestFinished } from 'vitest';
import type { ApprovalOptions } from '../../../src/agent/approvals/gate.ts';
import type { ApprovalAnswer, ApprovalDecision, ApprovalRequest } from '../../../src/agent/approvals/request.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import type { ApprovalRules } from '../../../src/agent/policy/approval-rules.ts';
import { parseApprovalRules } from '../../../src/agent/policy/approval-rules-parse.ts';
import type { TaskPolicy } from '../../../src/runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { type McpHost, never } from '../mcp/mcp-host.ts';
import { taskWith } from '../policy/policy-samples.ts';

export const but = (record: McpServerRecord, fields: Partial<McpServerRecord>): McpServerRecord =>
  Object.freeze({ ...record, ...fields });

export const asking = (record: McpServerRecord, mode: 'always' | 'policy' = 'always', ...tools: string[]) =>
  but(record, {
    approval_policy:
      tools.length === 0
        ? { default: mode, per_tool: {} }
        : { default: 'never', per_tool: Object.fromEntries(tools.map((tool) => [tool, mode])) },
  });

export function rulesOf(layers: { readonly node?: object[]; readonly task?: object[] }): ApprovalRules {
  const read = (given: object[] = []) => {
    const parsed = parseApprovalRules(given);
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.issues));
    return parsed.rules;
  };
  return { node: read(layers.node), task: read(layers.task) };
}

/** A decider in the test's hands: it notes what it is asked, and answers when told to, or at once. */
export class Desk {
  readonly asked: ApprovalRequest[] = [];
  readonly #answers: ((answer: ApprovalDecision | ApprovalAnswer) => void)[] = [];
  readonly #arrivals: ((request: ApprovalRequest) => void)[] = [];
  readonly #always: ApprovalDecision | null;
  #seen = 0;

  constructor(always: ApprovalDecision | null = null) {
    this.#always = always;
  }

  readonly decide = (request: ApprovalRequest): Promise<ApprovalDecision | ApprovalAnswer> => {
    this.asked.push(request);
    this.#arrivals.shift()?.(request);
    if (this.#always !== null) return Promise.resolve(this.#always);
    return new Promise((resolve) => this.#answers.push(resolve));
  };

  /** The next request that was not looked at yet. */
  next(): Promise<ApprovalRequest> {
    const known = this.asked[this.#seen++];
    return known ? Promise.resolve(known) : new Promise((resolve) => this.#arrivals.push(resolve));
  }

  /** Answers the request that waits longest. */
  answer(answer: ApprovalDecision | ApprovalAnswer): void {
    const waiting = this.#answers.shift();
    if (!waiting) throw new Error('nothing was asked');
    waiting(answer);
  }
}

export interface Answer {
  readonly content?: readonly { readonly text: string }[];
  readonly error?: { readonly code: string; readonly message: string; readonly retryable: boolean };
}

/** MCP for one guest with approvals; closed at the end of the test. */
export function guestOf(
  host: McpHost,
  approvals: ApprovalOptions,
  about: { readonly run?: string; readonly task?: Partial<TaskPolicy> } = {},
): GuestMcp {
  const defaultServerIds = [...(host.registry.snapshot()?.records.keys() ?? [])];
  const guest = new GuestMcp(host, about.run ?? 'run-1', taskWith({ defaultServerIds, ...about.task }), approvals);
  onTestFinished(() => guest.close());
  return guest;
}

let calls = 0;

export async function callTool(
  guest: GuestMcp,
  serverId: string,
  tool: string,
  args: object = {},
  more: { readonly session?: string; readonly signal?: AbortSignal } = {},
): Promise<Answer> {
  const { session = 'mcp-1000', signal = never } = more;
  const about = { serverId, tool, arguments: JSON.stringify(args), callId: `call-${++calls}`, session };
  return JSON.parse(await guest.call(about, signal)) as Answer;
}

/** `ok`, or the code of the error. */
export const outcome = ({ error }: Answer): string => error?.code ?? 'ok';
