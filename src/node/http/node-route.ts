import type { IncomingHttpHeaders } from 'node:http';
import type { LongRequest } from '../../server/http/caller-limits.ts';
import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import type { RouteDoc } from '../../server/http/openapi.ts';
import type { Need } from '../../server/identity/identity.ts';
import type { RunCall } from '../../server/routes/run-route.ts';

export type NodeReply = HttpReply;
export { jsonReply };

/** One request as a route sees it. Its caller is somebody without a token only where the route is for anybody. */
export interface NodeCall extends RunCall {
  /** Calls back once when the caller is no longer who they were. The returned function ends that. */
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
