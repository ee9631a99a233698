import type { IncomingHttpHeaders } from 'node:http';
import type { LongRequest } from '../../server/http/caller-limits.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import type { RouteDoc } from '../../server/http/openapi.ts';
import type { Need } from '../../server/identity/identity.ts';
import type { RunCall } from '../../server/routes/run-route.ts';

export type NodeReply = HttpReply;
export { jsonReply };

/** One request. Its identity is anonymous only if the route is public. */
export interface NodeCall extends RunCall {
  /** Calls `ended` once when the token of the caller is no longer valid. Returns a function that stops the check. */
  whileValid(ended: () => void): () => void;
}

export interface NodeRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Its variable parts are `{name}`; `{namespace}` is checked against the caller's. */
  readonly path: string;
  readonly needs: Need['needs'];
  readonly doc: RouteDoc;
  /** Whether this request keeps its connection. @default null: it does not */
  readonly longRequest?: (headers: IncomingHttpHeaders) => LongRequest | null;
  /** `streamed`: the route has answered by itself. */
  run(call: NodeCall): Promise<NodeReply | 'streamed'>;
}
