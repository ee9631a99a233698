import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

const ECDSA_WITH_SHA256 = '06082a8648ce3d040302';
const COMMON_NAME = '0603550403';
const BASIC_CONSTRAINTS = '0603551d13';
const SUBJECT_ALT_NAME = '0603551d11';
const DAY_MS = 86_400_000;

/** PEM texts. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

export interface Authority {
  readonly cert: string;
  /** One that it vouches for, for this machine: `name` is who a client is. */
  issue(name: string): Certificate;
}

/** A certificate for localhost that vouches for itself, made for one test run. */
export function selfSigned(validMs = DAY_MS): Certificate {
  const keys = newKeys();
  return {
    key: pemOf(keys.privateKey),
    cert: certificate('localhost', keys.publicKey, 'localhost', keys.privateKey, true, validMs),
  };
}

/** Whom a test trusts, made for it. */
export function newAuthority(name = 'the authority of a test'): Authority {
  const own = newKeys();
  return {
    cert: certificate(name, own.publicKey, name, own.privateKey, true),
    issue(subject) {
      const keys = newKeys();
      return { key: pemOf(keys.privateKey), cert: certificate(subject, keys.publicKey, name, own.privateKey, false) };
    },
  };
}

const newKeys = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const pemOf = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString();

function certificate(
  subject: string,
  publicKey: KeyObject,
  issuer: string,
  by: KeyObject,
  isAuthority: boolean,
  validMs = DAY_MS,
): string {
  const algorithm = der(0x30, hex(ECDSA_WITH_SHA256));
  const nameOf = (name: string) => der(0x30, der(0x31, der(0x30, hex(COMMON_NAME), der(0x0c, text(name)))));
  const validity = der(0x30, utcTime(Date.now() - DAY_MS), utcTime(Date.now() + validMs));
  const constraints = isAuthority ? der(0x30, der(0x01, hex('ff'))) : der(0x30);
  const names = der(0x30, der(0x82, text('localhost')), der(0x87, hex('7f000001')));
  const toBeSigned = der(
    0x30,
    der(0xa0, der(0x02, hex('02'))),
    der(0x02, Buffer.concat([hex('01'), randomBytes(8)])),
    algorithm,
    nameOf(issuer),
    validity,
    nameOf(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(
      0xa3,
      der(
        0x30,
        der(0x30, hex(BASIC_CONSTRAINTS), der(0x04, constraints)),
        der(0x30, hex(SUBJECT_ALT_NAME), der(0x04, names)),
      ),
    ),
  );
  const signed = der(0x30, toBeSigned, algorithm, der(0x03, hex('00'), sign('sha256', toBeSigned, by)));
  const lines = (signed.toString('base64').match(/.{1,64}/g) ?? []).join('\n');
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const header =
    length < 128 ? [tag, length] : length < 256 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from(header), content]);
}

function utcTime(time: number): Buffer {
  const digits = new Date(time).toISOString().replaceAll(/[-:T]/g, '').slice(2, 14);
  return der(0x17, text(`${digits}Z`));
}

function hex(digits: string): Buffer {
  return Buffer.from(digits, 'hex');
}

function text(value: string): Buffer {
  return Buffer.from(value);
}
