import { type HttpReply, jsonReply } from '../../server/http/http-reply.ts';
import type { RouteDoc } from '../../server/http/openapi.ts';
import type { AuthenticatedCall, Route } from '../../server/http/route.ts';

export { jsonReply };

/** A route of a node. The identity is anonymous only in routes that need no authentication. */
export interface NodeRoute extends Omit<Route, 'run' | 'isQuestion' | 'namespaced'> {
  readonly doc: RouteDoc;
  run(call: AuthenticatedCall): Promise<HttpReply | 'streamed'>;
}
