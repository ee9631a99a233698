import { readFileSync } from 'node:fs';
import { connect as connectPlainly, isIP } from 'node:net';
import { connect as connectByTls, createSecureContext } from 'node:tls';
import type { TlsOptions } from '@nats-io/transport-node';
import { isCertificateAlert } from '../../../base/certificate-problem.ts';
import { errorCode } from '../../../base/error-text.ts';

const TRIAL_MS = 3_000;
const SPOKEN_TO = 'PING\r\n';

/**
 * Why a server does not take the certificate that it is shown, or wants one: the code of its alert. Null: it has no such
 * objection, or says nothing. It comes after the handshake, and the client of the library makes a timeout of it.
 */
export async function certificateAlert(server: string, options: TlsOptions): Promise<string | null> {
  const { hostname, port } = new URL(`nats://${server}`);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const { ca, certFile, keyFile } = options;
  const shown = certFile && keyFile ? { cert: readFileSync(certFile), key: readFileSync(keyFile) } : {};
  const secureContext = createSecureContext({ ...(ca ? { ca } : {}), ...shown });
  const { promise, resolve } = Promise.withResolvers<string | null>();
  const socket = connectPlainly(Number(port), host);
  const timer = setTimeout(() => resolve(null), TRIAL_MS);
  const fail = (error: Error) => {
    const code = errorCode(error);
    resolve(isCertificateAlert(code) ? (code ?? null) : null);
  };
  socket.once('error', fail);
  socket.once('close', () => resolve(null));
  // Servers speak first, in clear, and TLS begins after that.
  socket.once('data', () => {
    const secure = connectByTls({ socket, secureContext, ...(isIP(host) ? { host } : { servername: host }) });
    secure.once('error', fail);
    secure.once('close', () => resolve(null));
    secure.once('secureConnect', () => secure.write(SPOKEN_TO));
    secure.once('data', () => resolve(null));
  });
  return promise.finally(() => {
    clearTimeout(timer);
    socket.on('error', () => {});
    socket.destroy();
  });
}
