/** Reads and writes the entries of a tar archive (POSIX ustar), regular files only: what `tar tf` lists. */

const BLOCK = 512;
const NAME_BYTES = 100;
const PREFIX_BYTES = 155;
const MODE = '0000600\0';
const REGULAR_FILE = '0';

export interface TarEntry {
  readonly path: string;
  readonly bytes: number;
}

/** The header of an entry. @throws if the path is too long for the format */
export function tarHeader({ path, bytes }: TarEntry): Buffer {
  const { name, prefix } = splitPath(path);
  const header = Buffer.alloc(BLOCK);
  header.write(name, 0);
  header.write(MODE, 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  header.write(`${octal(bytes, 11)}\0`, 124);
  header.write(`${octal(0, 11)}\0`, 136);
  header.write(REGULAR_FILE, 156);
  header.write('ustar\u000000', 257);
  header.write(prefix, 345);
  header.write(`${octal(checksum(header), 6)}\0 `, 148);
  return header;
}

/** Zeros that follow the content of an entry. */
export const tarPadding = (bytes: number): Buffer => Buffer.alloc((BLOCK - (bytes % BLOCK)) % BLOCK);

/** End marker after the last entry. */
export const tarEnd = (): Buffer => Buffer.alloc(2 * BLOCK);

/** Parses a header; null: end of the archive. @throws if it is not the header of a regular file */
export function parseTarHeader(header: Buffer): TarEntry | null {
  if (header.every((byte) => byte === 0)) return null;
  const field = (at: number, bytes: number) => header.toString('utf8', at, at + bytes).split('\0', 1)[0] ?? '';
  const bytes = Number.parseInt(field(124, 12).trim(), 8);
  const isSound =
    field(257, 6) === 'ustar' &&
    field(156, 1) === REGULAR_FILE &&
    Number.parseInt(field(148, 8).trim(), 8) === checksum(header) &&
    Number.isSafeInteger(bytes);
  if (!isSound) throw new Error('not a tar header of a regular file');
  const prefix = field(345, PREFIX_BYTES);
  return { path: prefix === '' ? field(0, NAME_BYTES) : `${prefix}/${field(0, NAME_BYTES)}`, bytes };
}

function splitPath(path: string): { readonly name: string; readonly prefix: string } {
  if (Buffer.byteLength(path) <= NAME_BYTES) return { name: path, prefix: '' };
  const cut = path.lastIndexOf('/');
  const [prefix, name] = [path.slice(0, Math.max(cut, 0)), path.slice(cut + 1)];
  if (Buffer.byteLength(name) <= NAME_BYTES && Buffer.byteLength(prefix) <= PREFIX_BYTES) return { name, prefix };
  throw new Error(`${path}: too long for a tar archive`);
}

const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0');

/** Sum of all bytes, with the checksum field as spaces. */
function checksum(header: Buffer): number {
  return header.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0);
}

/** Reads exact amounts of bytes from a stream. */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>;
  #left = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Up to `bytes` bytes; null: the stream has ended. */
  async some(bytes: number): Promise<Buffer | null> {
    while (this.#left.byteLength === 0) {
      const { value, done } = await this.#source.next();
      if (done === true) return null;
      this.#left = Buffer.from(value);
    }
    const taken = this.#left.subarray(0, bytes);
    this.#left = this.#left.subarray(bytes);
    return taken;
  }

  /** Exactly `bytes` bytes. @throws if the stream ends before */
  async exactly(bytes: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = bytes; left > 0; ) {
      const part = await this.some(left);
      if (part === null) throw new Error('the file ends too early');
      parts.push(part);
      left -= part.byteLength;
    }
    return Buffer.concat(parts);
  }
}
