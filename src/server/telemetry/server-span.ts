import type { Span, Tracer } from './span.ts';
import { parseTraceparent } from './trace-context.ts';

type Header = string | readonly string[] | undefined;

/** A request over HTTP to `route`, a path with named parameters; the span continues the caller's trace. */
export function beginHttpSpan(tracer: Tracer, traceparent: Header, method: string, route: string): Span {
  return tracer.begin({
    name: `${method} ${route}`,
    kind: 'server',
    parent: parseTraceparent(traceparent),
    attributes: { 'http.request.method': method, 'http.route': route },
  });
}

/** Ends the span. A client error (4xx) is not an error of the server. */
export function endHttpSpan(span: Span, status: number): void {
  span.set({ 'http.response.status_code': status });
  span.end(status >= 500 ? String(status) : null);
}

/** A call over gRPC of `package.Service/Method`. */
export function beginGrpcSpan(tracer: Tracer, traceparent: Header, method: string): Span {
  return tracer.begin({
    name: method,
    kind: 'server',
    parent: parseTraceparent(traceparent),
    attributes: { 'rpc.system.name': 'grpc', 'rpc.method': method },
  });
}

const serverFaults: ReadonlySet<string> = new Set([
  'UNKNOWN',
  'DEADLINE_EXCEEDED',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'BROKEN',
]);

/** `code`: its name, as `PermissionDenied`. */
export function endGrpcSpan(span: Span, code: string): void {
  const name = code.replaceAll(/(?<=[a-z])[A-Z]/g, '_$&').toUpperCase();
  span.set({ 'rpc.response.status_code': name });
  span.end(serverFaults.has(name) ? name : null);
}
