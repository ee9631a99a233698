import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { errorCode, errorText } from '../../base/errors.ts';
import type { ServiceLog } from '../log/service-log.ts';
import { readSecretFile, SecretFileError } from '../secrets/secret-file.ts';
import type { TlsMaterial } from './http-server.ts';

/** Interval at which the files are checked for changes, with two calls of stat. */
export const CHECK_INTERVAL_MS = 10_000;
const DAY_MS = 86_400_000;
/** Time before the expiry in which the log warns once a day. */
const WARN_BEFORE_MS = 14 * DAY_MS;

/**
 * TLS certificate of a server: loaded at the start, and reloaded when its files change or on request. A pair that cannot be
 * used (expired, unreadable, half renewed) does not replace the one in use.
 */
export class ServedCertificate {
  readonly #files: TlsFiles;
  readonly #optionNames: TlsFiles;
  readonly #log: ServiceLog;
  readonly #timer: NodeJS.Timeout;
  #tls: TlsMaterial;
  #expiresAtMs = 0;
  #loadedState: string;
  /** Why the last load failed; null if it succeeded. */
  #problem: string | null = null;
  #warnedAt = Number.NEGATIVE_INFINITY;
  /** Receives a renewed certificate. */
  onRenewed: (tls: TlsMaterial) => void = () => {};

  /** @throws Error that names the option and the file, also for an expired certificate */
  constructor(files: TlsFiles, log: ServiceLog, optionNames: TlsFiles = tlsFlags) {
    this.#files = files;
    this.#optionNames = optionNames;
    this.#log = log;
    this.#loadedState = this.#fileState();
    this.#tls = this.#read();
    this.#warn();
    this.#timer = setInterval(() => this.#check(), CHECK_INTERVAL_MS).unref();
  }

  get tls(): TlsMaterial {
    return this.#tls;
  }

  get expiresAtMs(): number {
    return this.#expiresAtMs;
  }

  /** Reloads the files. @throws Error; the certificate in use stays */
  reload(): void {
    this.#loadedState = this.#fileState();
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

  #check(): void {
    this.#warn();
    const known = this.#problem;
    if (known === null && this.#fileState() === this.#loadedState) return;
    try {
      this.reload();
      this.#log('info', 'certificate_reloaded', { file: this.#files.cert });
    } catch (error) {
      // Retried at the next check: a renewal may write the files one after the other, and then set their permissions.
      const message = errorText(error);
      if (message !== known) this.#log('error', 'certificate_not_reloaded', { message, kept: true });
    }
  }

  #read(): TlsMaterial {
    const { cert: option } = this.#optionNames;
    const { cert: file } = this.#files;
    const tls = readTls(this.#files, this.#optionNames);
    const expiresAtMs = expiryOf(tls, `${option}: ${file}`);
    if (expiresAtMs <= Date.now()) {
      throw new Error(`${option}: ${file} expired at ${new Date(expiresAtMs).toISOString()}: renew the certificate`);
    }
    this.#expiresAtMs = expiresAtMs;
    return tls;
  }

  #warn(): void {
    const now = Date.now();
    if (this.#expiresAtMs - now > WARN_BEFORE_MS || now - this.#warnedAt < DAY_MS) return;
    this.#warnedAt = now;
    const expires_at = new Date(this.#expiresAtMs).toISOString();
    const days = Math.floor((this.#expiresAtMs - now) / DAY_MS);
    this.#log('warn', 'certificate_expires', { file: this.#files.cert, expires_at, days });
  }

  /** Changes whenever a file is replaced or written. */
  #fileState(): string {
    return [this.#files.cert, this.#files.key]
      .map((path) => {
        const stat = statSync(path, { throwIfNoEntry: false });
        return stat === undefined ? 'none' : `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
      })
      .join(' ');
  }
}

/** Expiry of a certificate. @throws Error if it is not a certificate, or does not match the key */
function expiryOf(tls: TlsMaterial, where: string): number {
  try {
    createSecureContext(tls);
    return Date.parse(new X509Certificate(tls.cert).validTo);
  } catch (error) {
    throw new Error(`${where}: not a certificate that belongs to its key (${errorText(error)})`);
  }
}

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** Option names of the two files, for error messages. */
export const tlsFlags: TlsFiles = Object.freeze({ cert: '--tls-cert', key: '--tls-key' });

/** Reads a certificate and its key. @throws Error that names the option and the file */
function readTls(files: TlsFiles, optionNames: TlsFiles): TlsMaterial {
  return {
    cert: readTlsFile(optionNames.cert, files.cert, (path) => readFileSync(path, 'utf8')),
    key: readTlsFile(optionNames.key, files.key, readSecretFile),
  };
}

function readTlsFile(from: string, path: string, read: (path: string) => string): string {
  try {
    return read(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new Error(`${from}: ${error.message}`);
    throw new Error(`${from}: ${path} cannot be read (${errorCode(error) ?? error})`);
  }
}
