import type { JsonObject } from '../../../base/json.ts';
import type { CallKind } from '../../../runtime/port/call-kind.ts';
import type { Question, QuestionReply } from './elicitation/question.ts';
import type { McpError } from './errors.ts';
import type { ToolDescriptor } from './tool-list.ts';
import type { ToolOutput } from './tool-result.ts';

/** A call that its caller has let through. */
export interface PoolCall {
  /** @default tool */
  readonly kind?: CallKind | undefined;
  /** The server's own name of the tool or the prompt, or the uri of the resource. */
  readonly tool: string;
  readonly args: JsonObject;
  /** Whose call it is; places at a busy server go round between owners. */
  readonly owner: string;
  /** What the server is told of the call in its `_meta`, as the inside of a JSON object. */
  readonly origin?: string | undefined;
  /** The trace that it is a part of, for what stands before a server; `origin` tells the server itself. */
  readonly traceparent?: string | undefined;
  /** Can only shorten what the record allows. */
  readonly timeoutMs?: number | undefined;
  /** Can only lower what the record allows. */
  readonly maxOutputBytes?: number | undefined;
  /** Whether the result has its `_meta`: programs get it, models do not. @default false */
  readonly keepsMeta?: boolean | undefined;
  /** Waited for when the call has its place, with the tool and the arguments that will be sent: it is not if this rejects. */
  readonly announce?: ((tool: ToolDescriptor, args: JsonObject) => Promise<void>) | undefined;
  /** Asked at the last moment, after every wait; throws an McpError to refuse the call. */
  beforeDispatch?(tool: ToolDescriptor, args: JsonObject): void;
  /** The server asks something during it; no answer is wanted any more when the signal aborts. @default it is declined */
  asked?(question: Question, signal: AbortSignal): Promise<QuestionReply>;
  /** The server says how far it is. It may do so at any rate. */
  progressed?(progress: CallProgress): void;
}

/** A call that somebody has to decide about first. */
export interface ProposedCall extends Pick<PoolCall, 'kind' | 'tool' | 'args'> {
  readonly signal?: AbortSignal;
}

/** What it would be, if it were sent now. */
export interface DescribedCall {
  readonly tool: ToolDescriptor;
  readonly args: JsonObject;
}

/** How far a call is, as its server says. */
export interface CallProgress {
  readonly progress: number;
  /** Null: the server does not say. */
  readonly total: number | null;
}

/** A call by somebody who is told of its end. */
export interface ToldCall extends PoolCall {
  /** Called once, maybe before the call is started: a call that fails has an outcome too. */
  finished(output: ToolOutput): void;
}

export interface StartedCall {
  /** Ends it with this error, wherever it is; a server that has it is told. */
  cancel(error: McpError): void;
}
