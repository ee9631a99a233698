import { X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { errorText } from '../../base/error-text.ts';
import type { ServiceLog } from '../log/service-log.ts';
import type { TlsMaterial } from './bind.ts';
import { readTls, type TlsFiles, tlsFlags } from './tls-files.ts';

/** How often the files are looked at; a look is two calls of stat. */
export const LOOK_MS = 10_000;
const DAY_MS = 86_400_000;
/** Before its end an operator is warned, once a day. */
const WARNED_BEFORE_MS = 14 * DAY_MS;

/**
 * The certificate that a server presents: read at the start, and again when its files change or on request. A pair that
 * cannot be used (expired, unreadable, half renewed) does not replace the one in use.
 */
export class ServedCertificate {
  readonly #files: TlsFiles;
  readonly #words: TlsFiles;
  readonly #log: ServiceLog;
  readonly #timer: NodeJS.Timeout;
  #tls: TlsMaterial;
  #expiresAtMs = 0;
  #seen: string;
  /** Why the files could not be used when they were last read; null: they were. */
  #problem: string | null = null;
  #warnedAt = Number.NEGATIVE_INFINITY;
  /** Receives a renewed certificate. */
  onRenewed: (tls: TlsMaterial) => void = () => {};

  /** @throws Error that names the option and the file, also for an expired certificate */
  constructor(files: TlsFiles, log: ServiceLog, words: TlsFiles = tlsFlags) {
    this.#files = files;
    this.#words = words;
    this.#log = log;
    this.#seen = this.#state();
    this.#tls = this.#read();
    this.#warn();
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  get tls(): TlsMaterial {
    return this.#tls;
  }

  get expiresAtMs(): number {
    return this.#expiresAtMs;
  }

  /** Reads the files again. @throws Error, and the certificate in use stays */
  reload(): void {
    this.#seen = this.#state();
    try {
      this.#tls = this.#read();
    } catch (error) {
      this.#problem = errorText(error);
      throw error;
    }
    this.#problem = null;
    this.#warnedAt = Number.NEGATIVE_INFINITY;
    this.#warn();
    this.onRenewed(this.#tls);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    this.#warn();
    const known = this.#problem;
    if (known === null && this.#state() === this.#seen) return;
    try {
      this.reload();
      this.#log('info', 'certificate_reloaded', { file: this.#files.cert });
    } catch (error) {
      // Read again at the next look: a renewal may write one file after the other, and then set who may read them.
      const message = errorText(error);
      if (message !== known) this.#log('error', 'certificate_not_reloaded', { message, kept: true });
    }
  }

  #read(): TlsMaterial {
    const { cert: option } = this.#words;
    const { cert: file } = this.#files;
    const tls = readTls(this.#files, this.#words);
    const expiresAtMs = expiryOf(tls, `${option}: ${file}`);
    if (expiresAtMs <= Date.now()) {
      throw new Error(`${option}: ${file} expired at ${new Date(expiresAtMs).toISOString()}: renew the certificate`);
    }
    this.#expiresAtMs = expiresAtMs;
    return tls;
  }

  #warn(): void {
    const now = Date.now();
    if (this.#expiresAtMs - now > WARNED_BEFORE_MS || now - this.#warnedAt < DAY_MS) return;
    this.#warnedAt = now;
    const expires_at = new Date(this.#expiresAtMs).toISOString();
    const days = Math.floor((this.#expiresAtMs - now) / DAY_MS);
    this.#log('warn', 'certificate_expires', { file: this.#files.cert, expires_at, days });
  }

  /** Another one whenever a file was replaced or written. */
  #state(): string {
    return [this.#files.cert, this.#files.key]
      .map((path) => {
        const stat = statSync(path, { throwIfNoEntry: false });
        return stat === undefined ? 'none' : `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
      })
      .join(' ');
  }
}

/** When the certificate ends. @throws Error for what is no certificate, or not the one of the key */
function expiryOf(tls: TlsMaterial, where: string): number {
  try {
    createSecureContext(tls);
    return Date.parse(new X509Certificate(tls.cert).validTo);
  } catch (error) {
    throw new Error(`${where}: not a certificate that belongs to its key (${errorText(error)})`);
  }
}
