import { createHash } from 'node:crypto';
import { isJsonObject } from '../../../base/json.ts';
import type { CompiledComponent } from './component-stages.ts';

// magic, newline, sha256 of the rest in hex, newline, header as JSON, newline, glue, core modules.
const MAGIC = 'spear component 1';
const NEWLINE = 0x0a;
const HASH_CHARACTERS = 64;
const HEADER_START = MAGIC.length + 1 + HASH_CHARACTERS + 1;

interface Header {
  readonly key: string;
  readonly glueBytes: number;
  readonly modules: readonly (readonly [name: string, bytes: number])[];
  readonly about: Omit<CompiledComponent, 'glue' | 'coreModules'>;
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

export function encodeEntry({ glue, coreModules, ...about }: CompiledComponent, key: string): Buffer {
  const text = Buffer.from(glue);
  const header: Header = {
    key,
    glueBytes: text.byteLength,
    modules: [...coreModules].map(([name, bytes]) => [name, bytes.byteLength]),
    about,
  };
  const content = Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), text, ...coreModules.values()]);
  return Buffer.concat([Buffer.from(`${MAGIC}\n${sha256(content)}\n`), content]);
}

/** What was encoded under the key, or undefined: for another key, cut off, or changed in any byte. */
export function decodeEntry(bytes: Buffer, key: string): CompiledComponent | undefined {
  const content = bytes.subarray(HEADER_START);
  const start = bytes.subarray(0, HEADER_START).toString('latin1');
  if (start !== `${MAGIC}\n${sha256(content)}\n`) return undefined;
  const end = content.indexOf(NEWLINE);
  const header = parseHeader(content.subarray(0, end).toString());
  if (header?.key !== key) return undefined;

  let at = end + 1;
  const next = (length: number) => {
    at += length;
    return content.subarray(at - length, at);
  };
  const glue = next(header.glueBytes).toString();
  const coreModules = new Map(header.modules.map(([name, length]) => [name, next(length)]));
  return { ...header.about, glue, coreModules };
}

function parseHeader(text: string): Header | undefined {
  const header: unknown = JSON.parse(text);
  return isJsonObject(header) ? (header as unknown as Header) : undefined;
}
