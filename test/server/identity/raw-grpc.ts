import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { onStop } from '../../registry/running-sms.ts';

/** A separate connection to the gRPC listener. */
export function rawGrpc(address: string): ClientHttp2Session {
  const session = connect(`http://${address}`);
  onStop(() => session.destroy());
  return session;
}

/** Calls a method with an empty message. Returns the gRPC status, or `open` for a stream that stays open. */
export function callMethod(
  session: ClientHttp2Session,
  method: string,
  headers: Readonly<Record<string, string>>,
): Promise<number | 'open'> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${method}`,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    const settle = (outcome: number | 'open') => {
      stream.close(constants.NGHTTP2_CANCEL);
      resolve(outcome);
    };
    stream.on('response', (fields) => {
      if (fields['grpc-status'] !== undefined) settle(Number(fields['grpc-status']));
    });
    stream.on('data', () => settle('open'));
    stream.on('trailers', (fields) => settle(Number(fields['grpc-status'])));
    stream.on('error', reject);
    stream.end(Buffer.alloc(5));
  });
}
