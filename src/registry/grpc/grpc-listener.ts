import { constants, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { Code, ConnectError, type ConnectRouter, createConnectRouter, createContextValues } from '@connectrpc/connect';
import type { UniversalHandler, UniversalServerResponse } from '@connectrpc/connect/protocol';
import { compressionGzip, universalRequestFromNodeRequest } from '@connectrpc/connect-node';
import { startOf } from '../../base/text.ts';
import type { Refusal, SmsTrail } from '../../server/audit/sms-trail.ts';
import { peerOf } from '../../server/http/connections.ts';
import { type Access, type AuthFailure, authFailureAdvice } from '../../server/identity/access.ts';
import { Caller } from '../../server/identity/caller.ts';
import { type Need, refusal } from '../../server/identity/identity.ts';
import type { ServiceLog } from '../../server/log/service-log.ts';
import type { Identity } from '../../server/records/permissions.ts';
import { beginGrpcSpan, endGrpcSpan } from '../../server/telemetry/server-span.ts';
import type { Tracer } from '../../server/telemetry/span.ts';
import type { RegistryMetrics } from '../registry-metrics.ts';
import { grpcCaller, grpcIdentity } from './grpc-call.ts';
import type { CallLimits } from './grpc-server.ts';
import { responseSink, type StreamSink, streamSink, writeWithin } from './stream-sink.ts';

export interface GrpcListenerOptions {
  readonly routes: (router: ConnectRouter) => void;
  readonly access: Access;
  /** What each method asks of its caller, by "service/method". A method that is not named cannot be served. */
  readonly needs: ReadonlyMap<string, GrpcNeed>;
  readonly calls: CallLimits;
  readonly slowReaderMs: number;
  readonly shutdown: AbortSignal;
  readonly metrics: RegistryMetrics;
  /** Null: calls are not traced. */
  readonly tracer: Tracer | null;
  readonly trail: SmsTrail;
  readonly log: ServiceLog;
}

export interface GrpcNeed extends Need {
  /** Whether what it is refused is worth a line in the trail, as it is with everything that asks for more than to read. */
  readonly changes: boolean;
}

/** The largest request message, also after decompression. A record has 64 KiB at most. */
const MAX_REQUEST_BYTES = 1024 * 1024;
/** From the request's headers to its answer, or to the beginning of its stream. */
const REQUEST_TIMEOUT_MS = 15_000;
/** Compressing every answer costs more than it saves on the networks that nodes use, and cannot be shared. */
const NEVER_COMPRESS = 0xffff_ffff;

/** Of the text of a status. */
const MAX_MESSAGE_CHARS = 1_000;

const grpcContent = /^application\/grpc(?:\+proto)?$/i;

/** Serves gRPC requests of an HTTP/2 server, each to its end, whatever the peer does. */
export function grpcListener(
  options: GrpcListenerOptions,
): (req: Http2ServerRequest, res: Http2ServerResponse) => void {
  const router = createConnectRouter({
    grpcWeb: false,
    connect: false,
    acceptCompression: [compressionGzip],
    compressMinBytes: NEVER_COMPRESS,
    readMaxBytes: MAX_REQUEST_BYTES,
    shutdownSignal: options.shutdown,
    requestGate: ({ service, method, values }) =>
      admit(values.get(grpcIdentity), needOf(service, method, options.needs), options.metrics),
  });
  options.routes(router);
  const methods = new Map<string, GrpcMethod>(
    router.handlers.map((handler) => {
      const need = needOf(handler.service, handler.method, options.needs);
      return [handler.requestPath, { handler, need }];
    }),
  );

  const { slowReaderMs } = options;
  return (req, res) => {
    // Without a listener an error of the stream would end the process.
    req.on('error', () => {});
    res.on('error', () => {});
    const served = methods.get(req.url);
    if (req.method !== 'POST') refuse(res, constants.HTTP_STATUS_METHOD_NOT_ALLOWED, slowReaderMs);
    else if (!grpcContent.test(req.headers['content-type'] ?? '')) {
      refuse(res, constants.HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE, slowReaderMs);
    } else if (req.headers.origin !== undefined) refuse(res, constants.HTTP_STATUS_FORBIDDEN, slowReaderMs);
    else if (served === undefined) answer(res, Code.Unimplemented, 'unknown method', slowReaderMs);
    else {
      void options.access.identify({ authorization: req.headers.authorization }).then(async (who) => {
        if (begins(req, res, who, options)) await serve(served, req, res, who, options);
      });
    }
  };
}

interface GrpcMethod {
  readonly handler: UniversalHandler;
  readonly need: GrpcNeed;
}

/** A method whose need was forgotten must not be open to somebody by accident. */
function needOf(
  service: UniversalHandler['service'],
  method: UniversalHandler['method'],
  needs: GrpcListenerOptions['needs'],
): GrpcNeed {
  const name = `${service.typeName}/${method.name}`;
  const need = needs.get(name);
  if (need === undefined) throw new Error(`no permission declared for method ${name}`);
  return need;
}

/** Whether the call may begin; where not, it has been answered. */
function begins(
  req: Http2ServerRequest,
  res: Http2ServerResponse,
  who: Identity | AuthFailure,
  { access, calls, slowReaderMs, metrics }: GrpcListenerOptions,
): boolean {
  // It may have ended while it was found out who it is from.
  if (req.stream.destroyed) return false;
  const isAnonymous = typeof who === 'string';
  const begun = calls.begin(peerOf(req.socket), isAnonymous);
  if (typeof begun !== 'function') {
    metrics.shed.add(1, { protocol: 'grpc', reason: begun });
    if (begun === 'flooding') req.stream.session?.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
    else answer(res, Code.ResourceExhausted, 'too many calls in flight; try again', slowReaderMs);
    return false;
  }
  const forget = isAnonymous ? () => {} : access.whileValid(who, () => req.stream.close(constants.NGHTTP2_CANCEL));
  req.stream.once('close', () => {
    begun();
    forget();
  });
  return true;
}

/** The end of an answer waits for its reader too, and would wait for ever. */
function end(res: Http2ServerResponse, slowReaderMs: number): void {
  res.end();
  const timer = setTimeout(() => res.stream.close(constants.NGHTTP2_CANCEL), slowReaderMs);
  res.stream.once('close', () => clearTimeout(timer));
}

async function serve(
  { handler, need }: GrpcMethod,
  req: Http2ServerRequest,
  res: Http2ServerResponse,
  who: Identity | AuthFailure,
  { metrics, tracer, trail, log, slowReaderMs }: GrpcListenerOptions,
): Promise<void> {
  const { method } = handler;
  const span =
    tracer && need.needs !== 'anybody'
      ? beginGrpcSpan(tracer, req.headers.traceparent, `${handler.service.typeName}/${method.name}`)
      : null;
  const caller = Caller.request(req, 'grpc', method.name, typeof who === 'string' ? null : who);
  const timer = setTimeout(() => req.stream.close(constants.NGHTTP2_CANCEL), REQUEST_TIMEOUT_MS);
  const sink = responseSink(res, { peer: peerOf(req.socket), slowReaderMs, onBegin: () => clearTimeout(timer) });
  const values = createContextValues().set(streamSink, sink).set(grpcIdentity, who).set(grpcCaller, caller);
  let status = 'broken';
  try {
    const request = universalRequestFromNodeRequest(req, res, undefined, values);
    const response = await handler(request);
    clearTimeout(timer);
    await send(response, res, sink, slowReaderMs);
    status = response.trailer?.get('grpc-status') ?? String(response.status);
    if (status !== '0') trail.refused(caller, outcomeOf(status), need.changes);
  } catch (error) {
    // The peer has gone, or never sent a request that could be one.
    if (!req.stream.closed) {
      log('warn', 'grpc_broken', { method: handler.method.name, reason: String(error) });
      req.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    }
  } finally {
    clearTimeout(timer);
    metrics.requests.add(1, { protocol: 'grpc', method: handler.method.name, code: status });
    if (span !== null) endGrpcSpan(span, status === '0' ? 'Ok' : (Code[Number(status)] ?? status));
  }
}

/** @throws what a caller is told who may not */
function admit(who: Identity | AuthFailure, need: GrpcNeed, metrics: RegistryMetrics): void {
  const isAuthFailure = typeof who === 'string';
  if (isAuthFailure && need.needs === 'anybody') return;
  const why = isAuthFailure ? authFailureAdvice[who] : refusal(who, need);
  if (why === null) return;
  metrics.denied.add(1, { protocol: 'grpc' });
  if (who === 'unavailable') throw new ConnectError(why, Code.Unavailable);
  throw new ConnectError(why, isAuthFailure ? Code.Unauthenticated : Code.PermissionDenied);
}

function outcomeOf(status: string): Refusal {
  const code = Number(status);
  const isDenial = code === Code.Unauthenticated || code === Code.PermissionDenied;
  return { code: status, reason: Code[code] ?? 'unknown', isDenial };
}

async function send(
  response: UniversalServerResponse,
  res: Http2ServerResponse,
  sink: StreamSink,
  slowReaderMs: number,
): Promise<void> {
  for await (const chunk of response.body ?? []) {
    if (sink.begun) continue;
    if (!res.headersSent) res.writeHead(response.status, Object.fromEntries(response.header ?? []));
    await writeWithin(res, chunk, slowReaderMs);
  }
  if (!res.headersSent) res.writeHead(response.status, Object.fromEntries(response.header ?? []));
  res.addTrailers(trailersOf(response));
  end(res, slowReaderMs);
}

/**
 * The library encodes more of a message than the protocol asks for, and some clients decode no more than that. A message
 * may repeat what the caller sent: beyond what fits into trailers the call would end without any status.
 */
function trailersOf({ trailer = new Headers() }: UniversalServerResponse): Record<string, string> {
  const trailers = Object.fromEntries(trailer);
  const message = trailers['grpc-message'];
  if (message !== undefined)
    trailers['grpc-message'] = percentEncode(startOf(decodeURIComponent(message), MAX_MESSAGE_CHARS));
  return trailers;
}

function percentEncode(text: string): string {
  return text.replaceAll(/[^\x20-\x24\x26-\x7e]+/g, (part) =>
    [...Buffer.from(part)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

function refuse(res: Http2ServerResponse, status: number, slowReaderMs: number): void {
  res.writeHead(status);
  end(res, slowReaderMs);
}

function answer(res: Http2ServerResponse, code: Code, message: string, slowReaderMs: number): void {
  res.writeHead(200, {
    'content-type': 'application/grpc',
    'grpc-status': String(code),
    'grpc-message': message,
  });
  end(res, slowReaderMs);
}
