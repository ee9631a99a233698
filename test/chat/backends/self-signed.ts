import { generateKeyPairSync, sign } from 'node:crypto';

const ECDSA_WITH_SHA256 = '06082a8648ce3d040302';
const COMMON_NAME = '0603550403';
const BASIC_CONSTRAINTS = '0603551d13';
const SUBJECT_ALT_NAME = '0603551d11';

/** A certificate for localhost that vouches for itself, made for one test run. */
export function selfSigned(): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = der(0x30, hex(ECDSA_WITH_SHA256));
  const name = der(0x30, der(0x31, der(0x30, hex(COMMON_NAME), der(0x0c, text('localhost')))));
  const day = 86_400_000;
  const validity = der(0x30, utcTime(Date.now() - day), utcTime(Date.now() + day));
  const isAuthority = der(0x30, hex(BASIC_CONSTRAINTS), der(0x04, der(0x30, der(0x01, hex('ff')))));
  const names = der(0x30, der(0x82, text('localhost')), der(0x87, hex('7f000001')));
  const altNames = der(0x30, hex(SUBJECT_ALT_NAME), der(0x04, names));
  const toBeSigned = der(
    0x30,
    der(0xa0, der(0x02, hex('02'))),
    der(0x02, hex('01')),
    algorithm,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, isAuthority, altNames)),
  );
  const signature = sign('sha256', toBeSigned, privateKey);
  const certificate = der(0x30, toBeSigned, algorithm, der(0x03, hex('00'), signature));
  const lines = certificate.toString('base64').replaceAll(/(.{64})/g, '$1\n');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
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
