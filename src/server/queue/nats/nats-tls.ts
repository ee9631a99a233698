import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { TlsOptions } from '@nats-io/transport-node';
import { errorCode, errorText } from '../../../base/error-text.ts';
import type { NatsIdentity } from '../../../config/nats.ts';
import { readSecretFile, SecretFileError } from '../../secrets/secret-file.ts';
import { NatsSetupError } from './nats-setup-error.ts';

/** Whom to trust, and as whom to be known. */
export interface NatsTls {
  readonly tls: boolean;
  /** File of certificates to trust instead of the system's. */
  readonly ca: string | null;
  /** Files of the certificate that is shown to servers, and of its key; null: none is. */
  readonly identity: NatsIdentity | null;
}

/** Undefined: in clear. @throws NatsSetupError that names the field */
export function tlsOptions({ tls, ca, identity }: NatsTls): TlsOptions | undefined {
  if (!tls && ca === null && identity === null) return undefined;
  if (identity !== null) checkIdentity(identity.cert, identity.key);
  return {
    ...(ca === null ? {} : { ca: readText(ca, 'nats.ca') }),
    // Read by the client for every connection, so that renewed ones need no restart.
    ...(identity === null ? {} : { certFile: identity.cert, keyFile: identity.key }),
  };
}

/** Servers tell little about what is wrong with a certificate, and some of them after a minute. */
function checkIdentity(cert: string, key: string): void {
  const shown = readText(cert, 'nats.cert');
  let isPair: boolean;
  try {
    isPair = new X509Certificate(shown).checkPrivateKey(createPrivateKey(readKey(key)));
  } catch (error) {
    if (error instanceof NatsSetupError) throw error;
    throw new NatsSetupError(
      `nats.cert and nats.key: expected PEM files with a certificate and its key (${cert}, ${key})`,
    );
  }
  if (!isPair) throw new NatsSetupError(`nats.key: ${key} is not the key of the certificate in ${cert} (nats.cert)`);
}

function readText(path: string, field: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new NatsSetupError(`${field}: ${path} cannot be read (${errorCode(error)})`);
  }
}

function readKey(path: string): string {
  try {
    return readSecretFile(path);
  } catch (error) {
    const why = error instanceof SecretFileError ? errorText(error) : `${path} cannot be read (${errorCode(error)})`;
    throw new NatsSetupError(`nats.key: ${why}`);
  }
}
