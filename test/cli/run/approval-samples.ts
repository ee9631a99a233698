import type { ApprovalRequest } from '../../../src/agent/approvals/request.ts';

export interface AskedSample {
  readonly request: ApprovalRequest;
  /** As the gate does it when no answer is wanted any more. */
  withdraw(why: string): void;
}

export function requestWith(fields: Partial<ApprovalRequest> = {}): AskedSample {
  const controller = new AbortController();
  const request: ApprovalRequest = {
    task: 'notes',
    run: 'run-1',
    session: 'chat-1',
    ordinal: '5.1.1',
    callId: 'call-1',
    server: 'fs',
    kind: 'tool',
    tool: 'write_file',
    arguments: { path: '/data/x', content: 'a line' },
    cause: { code: 'always', text: 'every call needs an approval (approval_policy: always)' },
    definition: {
      name: 'write_file',
      description: 'Writes a file.',
      inputSchema: { type: 'object' },
      outputSchema: null,
      annotations: null,
    },
    changes: [],
    deadlineMs: Date.now() + 120_000,
    signal: controller.signal,
    ...fields,
  };
  return { request, withdraw: (why) => controller.abort(new Error(why)) };
}
