import { parentPort, workerData } from 'node:worker_threads';
import { errorText } from '../../base/error-text.ts';
import type { TranspileAnswer, TranspileRequest } from './transpile.ts';

// A thread that lives for one component: jco is large, and what it is given comes from a stranger.
const { bytes, asyncImports, asyncExports } = workerData as TranspileRequest;

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
    return { ok: true, files };
  } catch (error) {
    return { ok: false, message: describe(error) };
  }
}

/** What jco throws is a JavaScript error, or the text of one of its own. */
function describe(error: unknown): string {
  const reason = lastWords.split('\n').filter((line) => line !== '' && !ABOUT_THE_PANIC.test(line));
  if (reason.length > 0) return `jco gave up: ${reason.join(' ')}`;
  if (error instanceof Error && 'payload' in error) return String(error.payload);
  return errorText(error);
}

transpile().then((answer) => parentPort?.postMessage(answer));
