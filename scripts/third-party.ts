// The licences of other people's code that the build puts into dist/, in their own words.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

const INTRODUCTION = `The files here contain code of other packages, each named with its licence above the terms that it comes with.
Where a package brings no text of its licence, the text is in another section, or in ../LICENSE.
`;
const TERMS = /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i;
/** What stands above the code of a file: line comments, or a block. */
const HEADER = /^(?:#!.*\n)?(?:(?:\/\/.*\n)+|\/\*[\s\S]*?\*\/)/;

/**
 * The packages that have a file among those given, with version and licence, and under them the texts that they bring.
 * Some bring none but the headers of their files, so those are kept.
 */
export function thirdPartyNotices(files: Iterable<string>): string {
  const packages = new Map<string, string[]>();
  for (const file of files) {
    const folder = packageOf(file);
    if (folder) packages.set(folder, [...(packages.get(folder) ?? []), file]);
  }
  const titles = new Map<string, string[]>();
  for (const [folder, own] of packages) {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
    if (!license) throw new Error(`${name} ${version} is bundled into dist/ and names no licence`);
    const terms = termsOf(folder, own);
    titles.set(terms, [...(titles.get(terms) ?? []), `${name} ${version}, ${license}`]);
  }
  const sections = [...titles].map(([terms, same]) => `${same.sort().join('\n')}\n\n${terms}`).sort();
  return [INTRODUCTION, ...sections].join(`\n${'='.repeat(80)}\n`);
}

function termsOf(folder: string, files: readonly string[]): string {
  const texts = readdirSync(folder)
    .filter((name) => TERMS.test(name))
    .sort()
    .map((name) => readFileSync(join(folder, name), 'utf8'));
  if (texts.length > 0) return texts.join('\n');
  const headers = files.map((file) => HEADER.exec(readFileSync(file, 'utf8'))?.[0] ?? '');
  return `${[...new Set(headers)].filter((header) => /copyright/i.test(header)).join('\n')}\n`;
}

/** The folder of the package that a file belongs to; none for our own files. */
function packageOf(file: string): string | undefined {
  if (!file.includes('/node_modules/') || !existsSync(file)) return undefined;
  for (let folder = dirname(file); !folder.endsWith('/node_modules'); folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest) && 'version' in JSON.parse(readFileSync(manifest, 'utf8'))) return folder;
  }
  return undefined;
}
