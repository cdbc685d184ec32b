"""Renames items of a Rust workspace by resolving paths. usage: rename.py CHECKOUT MAPPING"""
import re, os, sys, subprocess, collections
ROOT = sys.argv[1]; os.chdir(ROOT)
LEX = re.compile(r'''(?P<lc>//[^\n]*)|(?P<bc>/\*.*?\*/)|(?P<rs>\b(?:b|c|br|cr)?r(?P<h>\#*)"(?:.*?)"(?P=h))|(?P<st>\b[bc]?"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")|(?P<ch>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])')|(?P<lt>'[A-Za-z_]\w*)|(?P<id>[A-Za-z_]\w*)|(?P<nu>\d[\w]*)|(?P<cc>::)|(?P<pu>[^\s])''', re.S)
def lex(t):
    return [(m.lastgroup if m.lastgroup!='h' else 'rs', m.group(), m.start()) for m in LEX.finditer(t)]
class Mod:
    def __init__(s, crate, path, parent, file, dirp):
        s.crate, s.path, s.parent, s.file, s.dir = crate, path, parent, file, dirp
        s.items = {}; s.subs = {}; s.uses = {}; s.globs = []
    def name(s): return '::'.join((s.crate,)+s.path)
class Item:
    def __init__(s, mod, name, kind): s.mod, s.n, s.kind = mod, name, kind; s.variants=set()
    def name(s): return s.mod.name()+'::'+s.n
files = [f for f in subprocess.check_output(['git','ls-files','--cached','--others','--exclude-standard','*.rs'], text=True).split('\n') if f and os.path.exists(f)]
files = list(dict.fromkeys(files))
text = {f: open(f).read() for f in files}
toks = {f: lex(text[f]) for f in files}
mods_of = {}   # file -> list of (start,end,Mod)
done = set()
crates = {}
def scan(f, mod):
    if f in done: return
    done.add(f)
    T = [t for t in toks[f] if t[0] not in ('lc','bc')]
    spans = mods_of.setdefault(f, []); spans.append((0, len(text[f])+1, mod))
    stack = [('mod', mod, None)]  # kind, mod, extra
    pend = None; cfgpath = None
    i = 0
    n = len(T)
    def cur(): 
        for k in reversed(stack):
            if k[1] is not None: return k[1]
    par = 0
    while i < n:
        k, x, p = T[i]
        if k == 'pu' and x == '#':
            j=i+1
            if j<n and T[j][1]=='!': j+=1
            if j<n and T[j][1]=='[':
                d=0; s=j
                while j<n:
                    if T[j][1]=='[': d+=1
                    if T[j][1]==']':
                        d-=1
                        if d==0: break
                    j+=1
                seg=T[s:j]
                if len(seg)>3 and seg[1][1]=='path' and seg[2][1]=='=': cfgpath=seg[3][1].strip('"')
                i=j+1; continue
        prev = T[i-1][1] if i else ''
        if k == 'id':
            if x in ('struct','enum','union','trait','type','fn','const','static','mod') and prev not in ('.','::') and i+1<n:
                j=i+1
                if x in('const','static') and T[j][1]=='mut': j+=1
                if T[j][0]=='id' and not (x=='const' and T[j][1] in('fn','unsafe','extern')):
                    nm=T[j][1]
                    inmod = stack[-1][0]=='mod' or stack[-1][0]=='blk'
                    if x=='union' and not (j+1<n and T[j+1][1] in '{<'): pass
                    elif x=='mod':
                        if T[j+1][1]==';':
                            m=cur()
                            base=m.dir
                            if cfgpath:
                                c=[os.path.normpath(os.path.join(os.path.dirname(f),cfgpath))]
                            else: c=[os.path.join(base,nm+'.rs'),os.path.join(base,nm,'mod.rs')]
                            for g in c:
                                if g in text:
                                    if g in done:
                                        # shared file
                                        m.subs[nm]=mods_of[g][0][2]
                                    else:
                                        d=os.path.join(base,nm) if not cfgpath else (os.path.dirname(g) if g.endswith('mod.rs') else g[:-3])
                                        sm=Mod(m.crate,m.path+(nm,),m,g,d); m.subs[nm]=sm
                                        scan(g,sm)
                                    break
                            cfgpath=None
                        elif T[j+1][1]=='{':
                            m=cur(); sm=Mod(m.crate,m.path+(nm,),m,f,os.path.join(m.dir,nm)); m.subs[nm]=sm
                            pend=('mod',sm,p)
                            i=j+1; continue
                    elif inmod and not (x=='type' and stack[-1][0] in('impl',)):
                        m=cur(); it=Item(m,nm,x)
                        if stack[-1][0]=='mod' or nm not in m.items: m.items.setdefault(nm,it)
                        if x=='enum': pend=('enum',None,it)
                        elif x=='struct': pend=('struct',None,None)
                        elif x=='trait': pend=('impl',None,None)
                        elif x=='fn': pend=('fn',None,None)
                        else: pend=None
                        i=j+1; 
                        if x in('struct','enum','trait','fn'): continue
                        continue
                    elif x=='fn': pend=('fn',None,None)
            elif x=='impl' and stack[-1][0] in('mod',) : pend=('impl',None,None)
            elif x=='macro_rules': pend=('macro',None,None)
            elif x=='use' and prev not in('.','::','<',',','+'):
                m=cur(); j=i+1
                def tree(j,pre):
                    if T[j][1]=='::': j+=1; pre=['::']
                    while True:
                        t=T[j]
                        if t[1]=='{':
                            j+=1
                            while T[j][1]!='}':
                                j=tree(j,list(pre))
                                if T[j][1]==',': j+=1
                            return j+1
                        if t[1]=='*': m.globs.append(list(pre)); return j+1
                        seg=t[1]
                        if T[j+1][1]=='::': pre=pre+[seg]; j+=2; continue
                        if T[j+1][1]=='as':
                            al=T[j+2][1]; 
                            if al!='_': m.uses.setdefault(al,pre+([seg] if seg!='self' else []))
                            return j+3
                        if seg=='self': 
                            if pre: m.uses.setdefault(pre[-1],pre)
                        else: m.uses.setdefault(seg,pre+[seg])
                        return j+1
                try: j=tree(j,[])
                except IndexError: j=i+1
                i=j; continue
            elif stack[-1][0]=='enum' and par==0 and prev in('{',',',']'):
                stack[-1][2].variants.add(x)
        elif x in '([': 
            par+=1
        elif x in ')]': par-=1
        elif x=='{':
            if pend: 
                stack.append((pend[0],pend[1],pend[2],par,p)); pend=None
            else:
                stack.append(('blk' if stack[-1][0] in('fn','blk') else 'br',None,None,par,p))
            if stack[-1][0]=='fn': stack[-1]=('blk',)+stack[-1][1:]
            par=0
        elif x=='}':
            if len(stack)>1:
                s=stack.pop(); par=s[3]
                if s[0]=='mod': spans.append((s[4],p,s[1]))
        elif x==';' and par==0: pend=None; cfgpath=None
        i+=1
def root(f, name, dirp):
    m=Mod(name,(),None,f,dirp); crates.setdefault(name,m); scan(f,m); return m
tomls=subprocess.check_output(['git','ls-files','*Cargo.toml'],text=True).split()
alias={}
ws=open('Cargo.toml').read()
wsalias={m[2]:m[1] for m in re.finditer(r'^(\w+) = \{ package = "([\w-]+)", path',ws,re.M)}
for t in tomls:
    s=open(t).read(); d=os.path.dirname(t)
    m=re.search(r'\[package\][^\[]*?name = "([^"]+)"',s)
    if not m: continue
    nm=m[1]; cn=wsalias.get(nm,nm.replace('-','_'))
    lib=re.search(r'\[lib\][^\[]*?path = "([^"]+)"',s)
    l=os.path.join(d,lib[1] if lib else 'src/lib.rs')
    if l in text: 
        r=root(l,cn,os.path.dirname(l)); crates[nm.replace('-','_')]=r
        ln=re.search(r'\[lib\][^\[]*?name = "([^"]+)"',s)
        if ln: crates[ln[1]]=r
    for b in re.findall(r'path = "([^"]+\.rs)"',s):
        b=os.path.normpath(os.path.join(d,b))
        if b in text and b not in done: root(b,cn+'/'+os.path.relpath(b,d),os.path.dirname(b))
for f in sorted(files,key=lambda f:(0 if f.endswith('src/main.rs') else 1 if f.endswith('/main.rs') else 2, f.count('/'),f)):
    if f not in done and re.search(r'(/src/main|/main|/tests/\w+|/benches/\w+|fuzz_targets/\w+|build)\.rs$',f): root(f,f,os.path.dirname(f))
for f in files:
    if f not in done: root(f,f,os.path.dirname(f))
def look(m, name, seen, first=False):
    key=(id(m),name)
    if key in seen: return None
    seen=seen|{key}
    if name in m.items and m.items[name].kind!='x': return m.items[name]
    if name in m.subs: return m.subs[name]
    if name in m.uses:
        r=resolve(m,m.uses[name],seen); 
        return r if r is not None else 'ext'
    for g in m.globs:
        t=resolve(m,g,seen)
        if isinstance(t,Mod):
            r=look(t,name,seen)
            if r is not None: return r
        elif isinstance(t,Item) and name in t.variants: return 'ext'
    return None
def resolve(m, segs, seen=frozenset()):
    if not segs: return m
    c=None; rest=segs
    s=segs[0]
    if s=='crate':
        c=m
        while c.parent: c=c.parent
    elif s=='self': c=m
    elif s=='super': c=m.parent
    elif s=='::': return resolve_ext(segs[1:],seen)
    else:
        c=look(m,s,seen,True)
        if c is None: return resolve_ext(segs,seen)
    for s in segs[1:]:
        if s=='super' and isinstance(c,Mod): c=c.parent; continue
        if s=='self': continue
        if isinstance(c,Mod): c=look(c,s,seen)
        else: return None
        if c is None: return None
    return c if c!='ext' else ('ext' if len(segs)==1 else None)
def resolve_ext(segs,seen):
    if not segs or segs[0] not in crates: return None
    c=crates[segs[0]]
    for s in segs[1:]:
        if isinstance(c,Mod): c=look(c,s,seen)
        else: return None
    return c
def mod_at(f,p):
    best=None
    for a,b,m in mods_of.get(f,[]):
        if a<=p<=b and (best is None or b-a<best[0]): best=(b-a,m)
    return best[1] if best else None
if __name__=='__main__':
    mapping={}; words=[]; texts=[]
    for l in open(sys.argv[2]):
        l=l.rstrip('\n')
        if not l.strip() or l.startswith('#'): continue
        p=l.split()
        if p[0]=='text': 
            _,old,new,*fs=l.split('\t'); texts.append((old,new,fs[0].split() if fs else []))
        elif p[0]=='word': words.append((p[1],p[2],p[3:]))
        else: mapping[p[0]]=p[1]
    byname={}
    for k in mapping: byname.setdefault(k.split('::')[-1],[]).append(k)
    used=set(); edits=collections.defaultdict(dict)
    def hit(r):
        if isinstance(r,(Item,Mod)) and r.name() in mapping: 
            used.add(r.name()); return mapping[r.name()]
    for f in files:
        T=[t for t in toks[f] if t[0] not in('lc','bc')]
        ctx=[]; pend=None; par=0
        def one(j,segs):
            k,x,p=T[j]
            if x in byname:
                m=mod_at(f,p)
                if m is None: return
                r=resolve(m,segs)
                if isinstance(r,Mod) and not (j+1<len(T) and T[j+1][1]=='::'): return
                h=hit(r)
                if h: edits[f][p]=(x,h)
        i=0; n=len(T)
        while i<n:
            k,x,p=T[i]; prev=T[i-1][1] if i else ''
            nxt=T[i+1][1] if i+1<n else ''
            if k=='id':
                if x=='use' and prev not in('.','::','<',',','+'):
                    def tree(j,pre):
                        if T[j][1]=='::': j+=1; pre=['::']
                        while True:
                            t=T[j]
                            if t[1]=='{':
                                j+=1
                                while T[j][1]!='}':
                                    j=tree(j,list(pre))
                                    if T[j][1]==',': j+=1
                                return j+1
                            if t[1]=='*': return j+1
                            if t[1]!='self' or not pre: one_use(j,pre+[t[1]])
                            if T[j+1][1]=='::': pre=pre+[t[1]]; j+=2; continue
                            if T[j+1][1]=='as': return j+3
                            return j+1
                    def one_use(j,segs):
                        k,x,p=T[j]
                        if x in byname:
                            m=mod_at(f,p)
                            h=hit(resolve(m,segs))
                            if h: edits[f][p]=(x,h)
                    try: i=tree(i+1,[]); continue
                    except IndexError: pass
                elif x=='enum' and nxt and prev!='.': pend='enum'
                elif x=='impl' : pend=pend or 'impl'
                elif x=='trait': pend='impl'
                elif x in('fn','struct','mod'): pend=x
                if x=='mod' and nxt in byname and T[i+2][1] in(';','{'):
                    m=mod_at(f,p); s=m.subs.get(nxt); h=hit(s)
                    if h: edits[f][T[i+1][2]]=(nxt,h)
                    i+=2; continue
                skip=False
                if x in byname:
                    c=ctx[-1][0] if ctx else None
                    if c=='enum' and par==0 and prev in('{',',',']'): skip=True
                    if prev=='.' and not (i>=2 and T[i-2][1]=='.' and T[i-2][2]==p-2): skip=True
                    if prev=='type' and c=='impl': skip=True
                    if prev in('fn','const') and c=='impl': skip=True
                    if nxt=='=' and prev in('<',',') : skip=True
                    if x[0].islower():
                        # lower case: only paths, calls and declarations of items
                        if not (prev=='::' or nxt in('::','(') or prev in('fn','mod') or (prev in('(',',') and nxt in(')',','))): skip=True
                        if nxt==':' or prev in('let','mut'): skip=True
                    if not skip:
                        # the path before this token
                        segs=[x]; j=i
                        ok=True
                        while j>=2 and T[j-1][1]=='::':
                            if T[j-2][0]=='id': segs.insert(0,T[j-2][1]); j-=2
                            else: 
                                if j>=2 and T[j-2][1]=='>': ok=False
                                break
                        if ok and segs[0]!='Self': one(i,segs)
            elif x in '([': par+=1
            elif x in ')]': par-=1
            elif x=='{': ctx.append((pend,par)); pend=None; par=0
            elif x=='}':
                if ctx: par=ctx.pop()[1]
            elif x==';' and par==0: pend=None
            i+=1
        for k,x,p in toks[f]:
            if k in('lc','bc'):
                for mm in re.finditer(r'`([A-Za-z_][\w:]*)',x):
                    q=p+mm.start(1); segs=mm[1].split('::')
                    for a in range(len(segs)):
                        if segs[a] in byname and (segs[a][0].isupper() or len(segs)>1):
                            m=mod_at(f,p)
                            h=hit(resolve(m,[s for s in segs[:a+1]]))
                            if h: edits[f][q]=(segs[a],h)
                        q+=len(segs[a])+2
    # words: identifiers and comments in backticks, methods, fields, locals
    def scope(f,fs):
        if not fs: return True
        neg=[x[1:] for x in fs if x[0]=='-']; pos=[x for x in fs if x[0]!='-']
        return not any(f.startswith(x) for x in neg) and (not pos or any(f.startswith(x) for x in pos))
    wd=collections.defaultdict(list)
    for o,nw,fs in words: wd[o].append((nw,fs))
    wused=set()
    for f in files:
        for k,x,p in toks[f]:
            if k=='id' and x in wd and p not in edits[f]:
                for nw,fs in wd[x]:
                    if scope(f,fs): edits[f][p]=(x,nw); wused.add((x,nw)); break
            elif k in('lc','bc'):
                for mm in re.finditer(r'`[^`\n]*`',x):
                    for w in re.finditer(r'[A-Za-z_]\w*',mm[0]):
                        if w[0] in wd and p+mm.start()+w.start() not in edits[f]:
                            for nw,fs in wd[w[0]]:
                                if scope(f,fs): edits[f][p+mm.start()+w.start()]=(w[0],nw); break
            elif k in('st','rs'):
                # names in format braces
                for w in re.finditer(r'(?<=\{)[a-z_]\w*(?=[:}])',x):
                    if w[0] in wd:
                        for nw,fs in wd[w[0]]:
                            if scope(f,fs): edits[f][p+w.start()]=(w[0],nw); break
    for f,e in edits.items():
        t=text[f]
        for p in sorted(e,reverse=True):
            o,nw=e[p]
            assert t[p:p+len(o)]==o,(f,p,o,t[p:p+20])
            t=t[:p]+nw+t[p+len(o):]
        if e: 
            text[f]=t; open(f,'w').write(t)
    for k in mapping:
        if k not in used: print('not found:',k)
    for o,nw,fs in words:
        if (o,nw) not in wused: print('word not found:',o,nw)
    for o,nw,fs in texts:
        c=0
        for g in fs:
            for f in ([g] if os.path.isfile(g) else [os.path.join(g,x) for x in subprocess.check_output(['git','ls-files'],text=True,cwd=g).split()] if os.path.isdir(g) else []):
                try: t=open(f).read()
                except Exception: continue
                t2=re.sub(o,nw,t)
                if t2!=t: open(f,'w').write(t2); c+=1
        if not c: print('text not found:',o)
