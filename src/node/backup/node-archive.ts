import { createHash } from 'node:crypto';
import { isJsonObject, parseJson } from '../../base/json.ts';
import { ByteReader, parseTarHeader, type TarEntry, tarEnd, tarHeader, tarPadding } from '../../base/tar.ts';

/**
 * The file that `spearlet backup` writes: a tar archive of `runs.db`, `tasks.db`, `blobs/` and `journals/`. Its last
 * entry is the manifest with a sha256 of all bytes before it, so a cut or changed archive is rejected.
 */

export const NODE_BACKUP_FORMAT = 1;
const MANIFEST = 'manifest.json';
const BLOCK = 512;
const MAX_MANIFEST_BYTES = 64 * 1024;
const CHUNK_BYTES = 1024 * 1024;
const VERSION = /^[0-9A-Za-z.+-]{1,64}$/;
/** The last time that a Date can be. */
const MAX_DATE_MS = 8.64e15;
/** All that an archive may hold; nothing else is unpacked. */
const KNOWN_PATH =
  /^(?:(?:runs|tasks)\.db|blobs\/[0-9a-f]{64}\.wasm|journals\/[A-Za-z0-9][A-Za-z0-9_.-]*\/[A-Za-z0-9_-]{1,2}\/[A-Za-z0-9_-]+\.jsonl)$/;

/** One file of the node. `content` gives exactly `bytes` bytes. */
export interface ArchivedFile extends TarEntry {
  content(): AsyncIterable<Uint8Array>;
}

export interface Manifest {
  readonly format: number;
  readonly spear: string;
  readonly created_at_ms: number;
}

/** The bytes of an archive. */
export async function* archiveOf(files: AsyncIterable<ArchivedFile>, manifest: Omit<Manifest, 'format'>) {
  const sum = createHash('sha256');
  const counted = (bytes: Uint8Array) => {
    sum.update(bytes);
    return bytes;
  };
  for await (const file of files) {
    yield counted(tarHeader(file));
    for await (const chunk of file.content()) yield counted(chunk);
    yield counted(tarPadding(file.bytes));
  }
  const last = Buffer.from(JSON.stringify({ format: NODE_BACKUP_FORMAT, ...manifest, sha256: sum.digest('hex') }));
  yield tarHeader({ path: MANIFEST, bytes: last.byteLength });
  yield last;
  yield tarPadding(last.byteLength);
  yield tarEnd();
}

/**
 * Gives every file of an archive to `unpack`, which reads all of `content`. Resolves when the manifest confirms them.
 * @throws Error that says what is wrong; what was unpacked is then not to be used
 */
export async function readArchive(
  source: AsyncIterable<Uint8Array>,
  unpack: (path: string, content: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<Manifest> {
  const sum = createHash('sha256');
  const reader = new ByteReader(source);
  for (;;) {
    const header = await reader.exactly(BLOCK);
    const entry = parseTarHeader(header);
    if (entry === null) throw new Error('the manifest is missing');
    if (entry.path === MANIFEST) return confirmed(await manifestBytes(reader, entry), sum.digest('hex'));
    if (!KNOWN_PATH.test(entry.path)) throw new Error(`unexpected entry ${JSON.stringify(entry.path)}`);
    sum.update(header);
    await unpack(entry.path, contentOf(reader, entry.bytes, sum));
    sum.update(await reader.exactly(tarPadding(entry.bytes).byteLength));
  }
}

async function* contentOf(reader: ByteReader, bytes: number, sum: { update(bytes: Uint8Array): unknown }) {
  for (let left = bytes; left > 0; ) {
    const part = await reader.some(Math.min(left, CHUNK_BYTES));
    if (part === null) throw new Error('the file ends too early');
    sum.update(part);
    left -= part.byteLength;
    yield part;
  }
}

async function manifestBytes(reader: ByteReader, { bytes }: TarEntry): Promise<string> {
  if (bytes > MAX_MANIFEST_BYTES) throw new Error('the manifest is too large');
  return (await reader.exactly(bytes)).toString('utf8');
}

function confirmed(text: string, sha256: string): Manifest {
  const parsed = parseJson(text);
  if (parsed === undefined || !isJsonObject(parsed)) throw new Error('the manifest is not a JSON object');
  const manifest = parsed as unknown as Manifest & { readonly sha256: unknown };
  if (manifest.format !== NODE_BACKUP_FORMAT) {
    throw new Error(
      `it has format ${JSON.stringify(manifest.format)}; this version reads format ${NODE_BACKUP_FORMAT}`,
    );
  }
  if (manifest.sha256 !== sha256) throw new Error('its sha256 does not match: the file was changed or damaged');
  // The sum does not cover the manifest.
  const { spear, created_at_ms } = manifest;
  const isSound = typeof spear === 'string' && VERSION.test(spear) && Number.isInteger(created_at_ms);
  if (!isSound || Math.abs(created_at_ms) > MAX_DATE_MS) throw new Error('the manifest is damaged');
  return manifest;
}
