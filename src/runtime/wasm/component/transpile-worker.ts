import { parentPort, workerData } from 'node:worker_threads';
import { errorText } from '../../../base/errors.ts';
import type { JcoModule, TranspileAnswer, TranspileInput } from './transpile.ts';

// A thread that lives for one component: jco is large, and what it is given comes from a stranger.
const { bytes, asyncImports, asyncExports, jco: kept } = workerData as TranspileInput;

// Nothing but jco's own modules is compiled here. The one that is all of it is taken from an earlier thread.
let jco: JcoModule | null = kept;
const { compile } = WebAssembly;
WebAssembly.compile = async (source) => {
  const { byteLength } = source;
  if (byteLength === jco?.byteLength) return jco.module;
  const module = await compile(source);
  if (byteLength > (jco?.byteLength ?? 0)) jco = { byteLength, module };
  return module;
};

/** Where jco gives up it says why on stderr, and nowhere else. */
let lastWords = '';
const MAX_LAST_WORDS = 2000;
const ABOUT_THE_PANIC = /^(?:thread|note:) /;
process.stderr.write = (chunk: string | Uint8Array) => {
  lastWords = (lastWords + Buffer.from(chunk as string).toString()).slice(0, MAX_LAST_WORDS);
  return true;
};

async function transpile(): Promise<TranspileAnswer> {
  const { $init, generate } = await import('@bytecodealliance/jco-transpile/component');
  await $init;
  try {
    const { files } = generate(bytes, {
      name: 'component',
      noTypescript: true,
      instantiation: { tag: 'async' },
      asyncMode: { tag: 'jspi', val: { imports: [...asyncImports], exports: [...asyncExports] } },
      noNodejsCompat: true,
      noComponentErrorWrapping: true,
      base64Cutoff: 0,
    });
    return { ok: true, files, jco };
  } catch (error) {
    return { ok: false, message: describe(error) };
  }
}

/** What jco throws is a JavaScript error, or the text of one of its own. */
function describe(error: unknown): string {
  const reason = lastWords.split('\n').filter((line) => line !== '' && !ABOUT_THE_PANIC.test(line));
  if (reason.length > 0) return `jco failed: ${reason.join(' ')}`;
  if (error instanceof Error && 'payload' in error) return String(error.payload);
  return errorText(error);
}

transpile().then((answer) => parentPort?.postMessage(answer));
