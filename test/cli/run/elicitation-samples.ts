import {
  type ElicitationRequest,
  parseQuestion,
  type Question,
} from '../../../src/agent/mcp/client/elicitation/question.ts';

export interface ElicitationSample {
  readonly request: ElicitationRequest;
  /** As the desk does it when no answer is wanted any more. */
  withdraw(why: string): void;
}

/** A question as its server would send it. */
export const questionOf = (params: object): Question =>
  parseQuestion(JSON.parse(JSON.stringify(params)), (text) => text);

export const formOf = (properties: object, required: readonly string[] = []) =>
  questionOf({ message: 'Who are you?', requestedSchema: { type: 'object', properties, required } });

export function elicitationOf(question: Question): ElicitationSample {
  const controller = new AbortController();
  const who = { task: 'notes', run: 'run-1', session: 'chat-1', callId: 'call-1', server: 'forms', tool: 'register' };
  const request = { ...question, ...who, deadlineMs: Date.now() + 120_000, signal: controller.signal };
  return { request, withdraw: (why) => controller.abort(new Error(why)) };
}
