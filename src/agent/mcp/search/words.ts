/** Tools say the same few thousand words over and over. */
const stems = new Map<string, string>();
const MAX_REMEMBERED = 20_000;

/** The longest text of a tool that is looked at; far above any real description. */
const MAX_TEXT = 4_096;

const stopWords = new Set(
  (
    'a about all also am an and any are as at be because been but by call can could did do does done each ever for ' +
    'from get give had has have how i if in into is it its just know last lately later left let like me mean my need new ' +
    'no not now of off on once one only or other our out over own please right same say should so some still such take ' +
    'tell than that the their them then there these they thing this those through to too under until up us use used ' +
    'using very want was we well were what when where whether which while who whole whose why will with within without ' +
    'would yes yet you your'
  )
    .split(' ')
    .map(stem),
);

/** Several words that mean one. */
const phrases: readonly (readonly [RegExp, string])[] = [
  [/\b(pull|merge) requests?\b/g, '$1request'],
  [/\blook(?:ing|s|ed)? (?:up|for)\b/g, 'search'],
  [/\bhow many\b/g, 'count'],
  [/\bget rid of\b/g, 'delete'],
  [/\bset up\b/g, 'create'],
  [/\bshut down\b/g, 'stop'],
  [/\bwho am i\b/g, 'whoami'],
  [/\blog(?:ged|ging)? in\b/g, 'login'],
  [/\bto-do\b/g, 'todo'],
  [/\bgo(?:es|ing)? (?:to|back)\b/g, 'navigate'],
  [/\b[\w-]+\.(?:com|org|net|io|dev)\b/g, 'url'],
];

/** What a question asks for without saying it. */
const questions: readonly (readonly [RegExp, string])[] = [
  [/\bwhich\b|\bwhat are\b|\bwho are\b|\bwhat is (?:in|on)\b/g, 'list'],
  [/\bwhat (?:does|did|was|were)\b|\bwhat is\b/g, 'read'],
  [/\bwhere\b/g, 'search'],
];

/** Words that people and tools say for the same thing. The first of each line stands for all; a word may mean several. */
const synonyms = new Map<string, string[]>();
for (const line of [
  'create add make insert register generate open start begin write',
  'delete remove erase drop destroy trash discard forget',
  'update edit modify change set rename patch alter adjust replace',
  'list show enumerate display browse overview available',
  'search find lookup query locate discover',
  'read fetch retrieve view content load see',
  'send post publish deliver message tell push',
  'issue ticket bug',
  'pullrequest pr mergerequest mr',
  'repository repo project',
  'directory folder dir',
  'filesystem disk drive',
  'picture image photo media png icon logo',
  'error exception crash failure fail',
  'user person member people account profile',
  'comment note reply remark answer',
  'run execute launch invoke trigger',
  'stop cancel abort kill terminate halt',
  'move transfer relocate rename',
  'web internet online website site webpage url page',
  'database db',
  'history past recent previous newest latest',
  'attach upload attachment',
  'download save export',
  'write save',
  'aggregate group sum',
  'count number many total',
  'permission access allowed',
  'metric statistic stats usage quota credit',
  'direction route car travel drive journey',
  'click press tap hit button',
  'type enter fill input',
  'hover mouse pointer cursor',
  'simulate emulate',
  'stash aside shelve',
  'deploy production release environment',
  'branch fork',
  'commit checkin',
  'tab window',
  'retry again rerun repeat',
  'reset undo revert rollback',
  'monitor watch notify observe',
  'event activity happen',
  'relation link connect associate',
  'multiple several three bulk batch many',
  'navigate visit',
  'place restaurant location nearby near shop',
]) {
  const words = line.split(' ').map(stem);
  const [head = ''] = words;
  for (const word of words) synonyms.set(word, [...(synonyms.get(word) ?? []), head]);
}

/** The words of a text as they are compared: small, without endings and filling words. */
export function wordsOf(text: string): string[] {
  // readFile is two words, and GitLab is one: products are written so, and people look for them by their names.
  const apart = text.slice(0, MAX_TEXT).replaceAll(/(?<![A-Za-z])[a-z]+(?:[A-Z][a-z\d]*)+/g, partsOf);
  const said = phrases.reduce(
    (sum, [phrase, word]) => sum.replaceAll(phrase, word),
    apart.toLowerCase().replaceAll('_', ' '),
  );
  return (said.match(/[\p{L}\p{N}]{2,}/gu) ?? []).map(stem).filter((word) => !stopWords.has(word));
}

/** The same of a name, in which every capital letter may begin a word. */
export function wordsOfName(name: string): string[] {
  return wordsOf(partsOf(name));
}

function partsOf(name: string): string {
  return name.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/([A-Z]+)([A-Z][a-z])/g, '$1 $2');
}

/** Words of a query. */
export function wordsOfQuery(query: string): string[] {
  const said = query
    .slice(0, MAX_TEXT)
    .replaceAll(/[A-Z]\w*/g, (word) => (/^[A-Z][a-z]*$/.test(word) ? word.toLowerCase() : word));
  return wordsOf(questions.reduce((sum, [phrase, word]) => sum.replaceAll(phrase, `${word} $&`), said));
}

/** The words that stand for this one and for those that mean the same. */
export function conceptsOf(word: string): readonly string[] {
  return synonyms.get(word) ?? [];
}

function stem(word: string): string {
  let known = stems.get(word);
  if (known === undefined) {
    known = withoutEnding(word);
    if (stems.size < MAX_REMEMBERED) stems.set(word, known);
  }
  return known;
}

/** Takes common English endings off, no more: what is left only has to be the same for forms of one word. */
function withoutEnding(word: string): string {
  // The news are not new.
  if (word.length <= 3 || word === 'news') return word;
  const bare = word
    .replace(/ies$/, 'y')
    .replace(/(ss|x|ch|sh|z)es$/, '$1')
    .replace(/([^su])s$/, '$1')
    .replace(/ations?$/, 'ate')
    .replace(/(...)ments?$/, '$1')
    .replace(/(..)ing$/, '$1')
    .replace(/(..[^e])ed$/, '$1')
    .replace(/([bdfgmnprt])\1$/, '$1');
  return bare.length > 3 ? bare.replace(/e$/, '') : bare;
}
