// Bundles the console of a registry: one script, one style sheet, one page, named by what they hold.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';

/** Writes `out`/console. Gives the files that went into it. */
export async function buildConsole(root: string, out: string): Promise<readonly string[]> {
  const source = join(root, 'src/console');
  const folder = join(out, 'console');
  mkdirSync(folder, { recursive: true });
  const bundle = await rolldown({
    cwd: root,
    input: { console: join(source, 'main.tsx') },
    platform: 'browser',
  });
  const { output } = await bundle.write({
    dir: folder,
    format: 'esm',
    minify: true,
    entryFileNames: '[name]-[hash].js',
    codeSplitting: false,
  });
  await bundle.close();

  const charts = join(root, 'node_modules/uplot/dist/uPlot.min.css');
  const style = `${readFileSync(charts, 'utf8')}\n${readFileSync(join(source, 'console.css'), 'utf8')}`;
  const icon = readFileSync(join(source, 'icon.svg'), 'utf8');
  const names: Record<string, string> = {
    'console.css': written(folder, 'console', 'css', style),
    'icon.svg': written(folder, 'icon', 'svg', icon),
    'main.tsx': output[0].fileName,
  };
  const page = readFileSync(join(source, 'index.html'), 'utf8');
  writeFileSync(
    join(folder, 'index.html'),
    page.replaceAll(/\.\/([\w.]+)/g, (whole, name) => names[name] ?? whole),
  );
  return [...output.flatMap((part) => (part.type === 'chunk' ? part.moduleIds : [])), charts];
}

function written(folder: string, name: string, extension: string, text: string): string {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 10);
  const file = `${name}-${hash}.${extension}`;
  writeFileSync(join(folder, file), text);
  return file;
}
