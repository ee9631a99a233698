import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RouteDoc } from '../../protocol/route-doc.ts';
import { type HttpReply, jsonReply } from '../../sms/http/http-reply.ts';
import type { Identity, Permission } from '../../sms/people/identity.ts';
import type { SpanContext } from '../../telemetry/trace-context.ts';

export type NodeReply = HttpReply;
export { jsonReply };

/** One request as a route sees it. */
export interface NodeCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** The variable parts of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** Somebody without a token: only where a route is for anybody. */
  readonly caller: Identity;
  /** The span of this request, where it came as a part of a trace; null: it did not, or nobody traces. */
  readonly trace: SpanContext | null;
  /** At most `maxBytes`, else 413. */
  bytes(maxBytes: number): Promise<Uint8Array>;
  /** Calls back once when the caller is no longer who they were. The returned function ends that. */
  whileValid(ended: () => void): () => void;
  /** Aborts when the client has gone, is no longer who they were, or the node ends. */
  readonly signal: AbortSignal;
}

/** What a node asks of a caller, in the words of the registry. */
export type NodeNeed = Extract<Permission, 'view' | 'submit' | 'operate'> | 'journals' | 'anybody';

export interface NodeRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Its variable parts are `{name}`; `{namespace}` is checked against the caller's. */
  readonly path: string;
  /** `journals`: the right to read what runs said and were told, which is in no role. */
  readonly needs: NodeNeed;
  readonly doc: RouteDoc;
  /** `streamed`: the route has answered by itself. */
  run(call: NodeCall): Promise<NodeReply | 'streamed'>;
}
